// A deletion that can be undone for some seconds: only then, or when the page is left, it is sent.

import { focusList } from "./keyboard.js";

const SECONDS = 8;
const IDS_PER_REQUEST = 100;

/**
 * @param {(method: string, path: string, body: object, options?: object) => Promise<object>} request Of `connect`.
 * @param {object} handlers `describe(count)` returns the text beside the button; `remove(item)`; `onDone(failed)`; `onError(error)`.
 */
export function deferDeletion(request, { describe, remove, onDone, onError }) {
  const bar = document.getElementById("undo-bar").content.firstElementChild.cloneNode(true);
  const button = bar.querySelector("button");
  let leaving = [];
  let timer;

  bar.hidden = true;
  document.getElementById("tools").append(bar);

  function close() {
    clearTimeout(timer);
    if (bar.contains(document.activeElement)) focusList();
    bar.hidden = true;
    const items = leaving;
    leaving = [];
    return items;
  }

  /** Sends the deletion; an image that could not be deleted is shown again. */
  async function send(options) {
    const items = new Map(close().map((item) => [item.dataset.id, item]));
    const ids = [...items.keys()];
    const chunks = [];
    for (let start = 0; start < ids.length; start += IDS_PER_REQUEST) chunks.push(ids.slice(start, start + IDS_PER_REQUEST));
    const removeChunk = async (chunk) => {
      const { results } = await request("POST", "/images/delete", { image_ids: chunk }, options);
      for (const { id, status } of results) {
        if (status === "failed") continue;
        remove(items.get(id));
        items.delete(id);
      }
    };
    try {
      // A page that is left has no time to wait for one before the next.
      if (options) await Promise.all(chunks.map(removeChunk));
      else for (const chunk of chunks) await removeChunk(chunk);
      onDone(items.size);
    } catch (error) {
      onError(error);
    }
    for (const item of items.values()) item.hidden = false;
  }

  button.addEventListener("click", () => {
    const items = close();
    for (const item of items) item.hidden = false;
    items[0]?.querySelector("a").focus();
  });
  addEventListener("pagehide", () => leaving.length && send({ keepalive: true }));

  return {
    /** Hides images, and deletes those of an earlier deletion now. */
    begin: (items) => {
      if (leaving.length) send();
      leaving = items;
      for (const item of items) item.hidden = true;
      bar.querySelector(".count").textContent = describe(items.length);
      bar.hidden = false;
      button.focus({ preventScroll: true });
      timer = setTimeout(() => send(), SECONDS * 1000);
    },
  };
}
