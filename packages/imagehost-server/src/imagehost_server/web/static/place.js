// The place in a list: what the reader loaded, selected and scrolled to. A reload of the page, and Back to it, return there.
//
// The history entry of the page has a key, under which this tab keeps the place when the page is left.

const STORAGE_KEY = "imagehost-places";
const PLACES = 20; // the number that is kept: the newest
const parts = {};
const key = String(history.state?.list ?? performance.timeOrigin);

function readPlaces() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY)) ?? [];
  } catch {
    return []; // another version, or no storage
  }
}

/** What was kept under the names of `keepInPlace`. */
export const place = readPlaces().find(([name]) => name === key)?.[1] ?? {};

/** Keeps what a function returns when the page is left. */
export function keepInPlace(name, read) {
  parts[name] = read;
}

addEventListener("pagehide", () => {
  const others = readPlaces().filter(([name]) => name !== key);
  const values = Object.fromEntries(Object.entries(parts).map(([name, read]) => [name, read()]));
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify([...others, [key, values]].slice(-PLACES)));
  } catch {
    // The browser stores nothing.
  }
});

history.replaceState({ ...history.state, list: key }, "");
history.scrollRestoration = "manual"; // the browser would scroll before the list is as long as it was

const pathOf = (item) => item?.querySelector("a")?.getAttribute("href");

/**
 * Keeps where a list is scrolled to, and which of its images has the focus.
 *
 * @param {HTMLElement} container The list or table with the id `grid`.
 * @returns {(isLast?: boolean) => void} Scrolls to the image that was at the top, unless it is not loaded yet or the
 *   reader has scrolled; `isLast` says that no more images come.
 */
export function keepScroll(container) {
  const items = () => [...(container.tBodies?.[0] ?? container).children];
  const find = (path) => items().find((item) => path && pathOf(item) === path);
  const { top, focused } = place;
  let isDone = !top;
  keepInPlace("focused", () => pathOf(document.activeElement.closest("#grid li, #grid tr")));
  keepInPlace("top", () => {
    const item = items().find((one) => pathOf(one) && one.getBoundingClientRect().bottom > 0);
    return item && { path: pathOf(item), offset: item.getBoundingClientRect().top, scrollY };
  });
  return (isLast = false) => {
    if (isDone || scrollY !== 0) return;
    const item = find(top.path);
    if (!item && !isLast) return;
    isDone = true;
    // The image may have been deleted.
    scrollTo(0, item ? scrollY + item.getBoundingClientRect().top - top.offset : top.scrollY);
    find(focused)?.querySelector("a").focus({ preventScroll: true });
  };
}
