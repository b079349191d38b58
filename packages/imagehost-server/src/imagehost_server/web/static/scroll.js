// Endless scrolling: the items of the next page are appended before its link comes into view.

import { keepInPlace, keepScroll, place } from "./place.js";
import { showPlaceholders } from "./thumbhash.js";

const PARALLEL_REQUESTS = 4;

/** Hide what stands below the new items until it is at its new place, so that it causes no layout shift. */
function hideWhileMoved(...elements) {
  const setVisibility = (value) => {
    for (const element of elements) element.style.visibility = value;
  };
  setVisibility("hidden");
  requestAnimationFrame(() => requestAnimationFrame(() => setVisibility("")));
}

async function fetchPage(url) {
  const response = await fetch(url, { headers: { accept: "text/html" } });
  if (!response.ok) throw new Error(`expected a page but received ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  // After the end of the session it is the page for signing in.
  if (!page.getElementById("status")) throw new Error("expected a page of the list");
  return { url, page };
}

/**
 * @param {Element} container The list or table with the id `grid`.
 * @param {object} texts `loading`, `failed` and `end`.
 * @returns {Promise<void>} Ends when all is loaded again that was before a reload or Back.
 */
export async function scrollEndlessly(container, texts) {
  const link = document.getElementById("more");
  const status = document.getElementById("status");
  const scroll = keepScroll(container);
  const pages = [];
  keepInPlace("pages", () => pages);
  if (!link) return void scroll(true);

  /** Appends a page; returns whether there are more. */
  function append({ url, page }) {
    const source = page.getElementById("grid");
    // Since images were deleted, a page that is loaded again ends with what the next begins with.
    const known = new Set([...container.querySelectorAll("a")].map((anchor) => anchor.pathname));
    const items = [...((source?.tBodies?.[0] ?? source)?.children ?? [])]
      .filter((item) => !known.has(item.querySelector("a")?.pathname))
      .map((item) => document.adoptNode(item));
    for (const image of items.flatMap((item) => [...item.querySelectorAll("img")])) image.loading = "lazy";
    // The month of the last item goes on.
    const month = [...container.querySelectorAll(".month")].at(-1);
    if (items[0]?.matches(".month") && items[0].textContent === month?.textContent) items.shift();
    hideWhileMoved(link.parentElement, status);
    (container.tBodies?.[0] ?? container).append(...items);
    showPlaceholders(container);
    pages.push(url);
    const next = page.getElementById("more");
    if (next) link.href = next.href;
    else link.remove();
    status.textContent = next ? "" : texts.end;
    return next !== null;
  }

  const observer = new IntersectionObserver(
    async ([entry]) => {
      if (!entry.isIntersecting) return;
      observer.disconnect();
      status.textContent = texts.loading;
      try {
        // An observer reports changes only: observing again reports where the link is now.
        if (append(await fetchPage(link.href))) observer.observe(link);
      } catch {
        // The link still works.
        status.textContent = texts.failed;
      }
    },
    { rootMargin: "1200px" },
  );

  try {
    const earlier = place.pages ?? [];
    scroll(earlier.length === 0);
    for (let start = 0; start < earlier.length && link.isConnected; start += PARALLEL_REQUESTS) {
      status.textContent = texts.loading;
      for (const page of await Promise.all(earlier.slice(start, start + PARALLEL_REQUESTS).map(fetchPage))) append(page);
      scroll();
    }
    scroll(true);
  } catch {
    status.textContent = texts.failed;
  }
  if (link.isConnected) observer.observe(link);
}
