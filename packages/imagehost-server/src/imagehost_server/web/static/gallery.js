// The gallery: placeholders, more images as the page is scrolled, and a lightbox.

import { mountKeyboard } from "./keyboard.js";
import { mountLightbox } from "./lightbox.js";
import { rememberList } from "./neighbours.js";
import { scrollEndlessly } from "./scroll.js";
import { showPlaceholders } from "./thumbhash.js";

const texts = JSON.parse(document.getElementById("texts").textContent);
const grid = document.getElementById("grid");

if (grid) {
  showPlaceholders(grid);
  rememberList(grid);
  mountKeyboard(grid);
  mountLightbox(grid, texts, scrollEndlessly(grid, texts));
}
