// Endless scrolling: the items of the next page are appended before its link comes into view.

import { fetchPatiently } from "./patience.js";
import { keepInPlace, keepScroll, place } from "./place.js";
import { showPlaceholders } from "./thumbhash.js";
import { unloadFarImages } from "./unload.js";

const PARALLEL_REQUESTS = 4;

/** Hide what stands below the new items until it is at its new place, so that it causes no layout shift. */
function hideWhileMoved(...elements) {
  const setVisibility = (value) => {
    for (const element of elements) element.style.visibility = value;
  };
  setVisibility("hidden");
  requestAnimationFrame(() => requestAnimationFrame(() => setVisibility("")));
}

/** Ends when no images are leaving the list. */
function untilIdle(container) {
  return new Promise((resolve) => {
    const observer = new MutationObserver(check);
    observer.observe(container, { attributeFilter: ["aria-busy"] });
    check();
    function check() {
      if (container.ariaBusy === "true") return;
      observer.disconnect();
      resolve();
    }
  });
}

async function fetchPage(url, status, texts) {
  status.textContent = texts.loading;
  const onWait = (seconds) => (status.textContent = texts.waiting.replace("{seconds}", seconds));
  const onLost = () => (status.textContent = texts.lost);
  const response = await fetchPatiently(url, { headers: { accept: "text/html" } }, onWait, onLost);
  if (!response.ok) throw new Error(`expected a page but received ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (page.getElementById("status")) return { url, page };
  // It is the page for signing in.
  const { describeSession, waitForSession } = await import("./session.js");
  status.replaceChildren(describeSession("ended"));
  await waitForSession();
  return fetchPage(url, status, texts);
}

/**
 * @param {Element} container The list or table with the id `grid`.
 * @param {object} texts Those of the section `gallery`.
 * @returns {Promise<void>} Ends when all is loaded again that was before a reload or Back.
 */
export async function scrollEndlessly(container, texts) {
  const link = document.getElementById("more");
  const status = document.getElementById("status");
  const scroll = keepScroll(container);
  const pages = [];
  keepInPlace("pages", () => pages);
  if (!link) return void scroll(true);
  unloadFarImages(container);

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
    async (entries) => {
      // The first entry may be of a place that the link has left since.
      if (!entries.at(-1).isIntersecting) return;
      observer.disconnect();
      await untilIdle(container);
      try {
        // An observer reports changes only: observing again reports where the link is now.
        if (append(await fetchPage(link.href, status, texts))) observer.observe(link);
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
      const urls = earlier.slice(start, start + PARALLEL_REQUESTS);
      for (const page of await Promise.all(urls.map((url) => fetchPage(url, status, texts)))) append(page);
      scroll();
    }
    scroll(true);
  } catch {
    status.textContent = texts.failed;
  }
  if (link.isConnected) observer.observe(link);
}
