// The images of a long list that are far from the window are not kept in memory: their elements stay, without sources.
//
// The style sheet gives their boxes `content-visibility`, and the browser tells which boxes it skips.

const NAMES = ["src", "srcset"];

/** Returns the attributes `src` and `srcset` of an image, also of one that is not loaded now. */
export const sourcesOf = (image) => Object.fromEntries(NAMES.map((name) => [name, image.dataset[name] ?? image[name]]));

/** @param {HTMLElement} container The list with the id `grid`. */
export function unloadFarImages(container) {
  const update = ({ target, skipped }) => {
    const image = target.querySelector("img");
    if (!image || skipped === "src" in image.dataset) return;
    for (const name of NAMES) {
      if (skipped) image.dataset[name] = image[name];
      else image[name] = image.dataset[name];
      if (skipped) image.removeAttribute(name);
      else delete image.dataset[name];
    }
  };
  container.addEventListener("contentvisibilityautostatechange", update, { capture: true });
}
