// The gallery: placeholders, more images as the page is scrolled, and a lightbox.

import { openLightbox } from "./lightbox.js";
import { rememberList } from "./neighbours.js";
import { scrollEndlessly } from "./scroll.js";
import { showPlaceholders } from "./thumbhash.js";

const texts = JSON.parse(document.getElementById("texts").textContent);
const grid = document.getElementById("grid");

if (grid) {
  showPlaceholders(grid);
  scrollEndlessly(grid, texts);
  rememberList(grid);
  grid.addEventListener("click", (event) => {
    const anchor = event.target.closest("li a");
    if (!anchor || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    openLightbox(grid, anchor, texts);
  });
}
