// Endless scrolling: the items of the next page are appended before its link comes into view.

import { showPlaceholders } from "./thumbhash.js";

/** Hide what stands below the new items until it is at its new place, so that it causes no layout shift. */
function hideWhileMoved(...elements) {
  const setVisibility = (value) => {
    for (const element of elements) element.style.visibility = value;
  };
  setVisibility("hidden");
  requestAnimationFrame(() => requestAnimationFrame(() => setVisibility("")));
}

async function loadMore(link, container, status, texts) {
  status.textContent = texts.loading;
  const response = await fetch(link.href, { headers: { accept: "text/html" } });
  if (!response.ok) throw new Error(`expected a page but received ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const source = page.getElementById("grid");
  // After the end of the session it is the page for signing in.
  if (!source) throw new Error("expected a page with images");
  const items = [...(source.tBodies?.[0] ?? source).children].map((item) => document.adoptNode(item));
  for (const image of items.flatMap((item) => [...item.querySelectorAll("img")])) image.loading = "lazy";
  // The month of the last item goes on.
  const month = [...container.querySelectorAll(".month")].at(-1);
  if (items[0]?.matches(".month") && items[0].textContent === month?.textContent) items.shift();
  hideWhileMoved(link.parentElement, status);
  (container.tBodies?.[0] ?? container).append(...items);
  showPlaceholders(container);
  const next = page.getElementById("more");
  if (next) link.href = next.href;
  else link.remove();
  status.textContent = next ? "" : texts.end;
  return next !== null;
}

/**
 * @param {Element} container The list or table with the id `grid`.
 * @param {object} texts `loading`, `failed` and `end`.
 */
export function scrollEndlessly(container, texts) {
  const link = document.getElementById("more");
  const status = document.getElementById("status");
  if (!link) return;
  const observer = new IntersectionObserver(
    async ([entry]) => {
      if (!entry.isIntersecting) return;
      observer.disconnect();
      try {
        // An observer reports changes only: observing again reports where the link is now.
        if (await loadMore(link, container, status, texts)) observer.observe(link);
      } catch {
        // The link still works.
        status.textContent = texts.failed;
      }
    },
    { rootMargin: "1200px" },
  );
  observer.observe(link);
}
