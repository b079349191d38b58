// The page of an image: its neighbours in the list that it was opened from, and its width while the details are folded.

import { showNeighbours } from "./neighbours.js";

showNeighbours(JSON.parse(document.getElementById("texts").textContent));
const image = document.querySelector(".large");
document.querySelector(".panel").addEventListener("toggle", () => (image.sizes = `${image.width}px`));
