// The page of an image: its neighbours in the list that it was opened from.

import { showNeighbours } from "./neighbours.js";

showNeighbours(JSON.parse(document.getElementById("texts").textContent));
