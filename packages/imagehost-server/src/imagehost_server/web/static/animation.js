// A button that pauses an animation: its first frame is shown instead.

const texts = JSON.parse(document.getElementById("texts").textContent);
const picture = document.getElementById("animation");
const still = picture.querySelector("source");
const button = document.createElement("button");
let isPaused = matchMedia(still.media).matches;

function show() {
  still.media = isPaused ? "all" : "not all";
  button.textContent = isPaused ? texts.play : texts.pause;
}

button.type = "button";
button.className = "plain";
button.addEventListener("click", () => {
  isPaused = !isPaused;
  show();
});
show();
picture.closest("figure").append(button);
