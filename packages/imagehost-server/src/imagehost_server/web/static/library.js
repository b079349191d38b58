// My images: selection of many, and changes of the selected ones.

import { ApiError, connect } from "./api.js";
import { copyText } from "./clipboard.js";
import { rememberList } from "./neighbours.js";
import { scrollEndlessly } from "./scroll.js";
import { showPlaceholders } from "./thumbhash.js";

const IDS_PER_REQUEST = 100;
const texts = JSON.parse(document.getElementById("texts").textContent);
const grid = document.getElementById("grid");
const status = document.getElementById("status");
const say = (key, values) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const library = document.getElementById("library");
const request = connect(library, (seconds) => (status.textContent = say("waiting", { seconds })));

const counted = (key, count) => say(`${key}.${count === 1 ? "one" : "other"}`, { count });
const describe = (error) => (error instanceof ApiError ? error.message : texts.connection);

function start() {
  const selected = new Set();
  const bar = document.getElementById("selection-bar").content.firstElementChild.cloneNode(true);
  const count = bar.querySelector(".count");
  let last = null;
  document.getElementById("main").append(bar);
  bar.hidden = true;
  // What gets the focus is scrolled to above the bar, which is 0 high while it is hidden.
  new ResizeObserver(() => (document.documentElement.style.scrollPaddingBottom = `${bar.offsetHeight}px`)).observe(bar);

  const items = () => [...grid.querySelectorAll("[data-id]")];

  function addCheckboxes(root) {
    for (const item of root) {
      if (item.querySelector("input")) continue;
      const box = document.createElement("input");
      box.type = "checkbox";
      box.ariaLabel = `${texts.select}: ${item.querySelector("img").alt}`;
      (item.tagName === "TR" ? item.cells[0] : item).prepend(box);
    }
  }

  function refresh() {
    bar.hidden = selected.size === 0;
    count.textContent = counted("selected", selected.size);
  }

  function mark(item, isSelected) {
    item.querySelector("input").checked = isSelected;
    item.classList.toggle("selected", isSelected);
    if (isSelected) selected.add(item);
    else selected.delete(item);
  }

  grid.addEventListener("click", (event) => {
    const box = event.target.closest("input[type=checkbox]");
    if (!box) return;
    const item = box.closest("[data-id]");
    const all = items();
    const from = all.indexOf(last);
    const to = all.indexOf(item);
    // Shift selects all from the last one that was clicked.
    const range = event.shiftKey && from >= 0 ? all.slice(Math.min(from, to), Math.max(from, to) + 1) : [item];
    for (const member of range) mark(member, box.checked);
    last = item;
    refresh();
  });

  async function change(method, path, body, onItem) {
    const focused = document.activeElement;
    const ids = [...selected].map((item) => item.dataset.id);
    const byId = new Map([...selected].map((item) => [item.dataset.id, item]));
    let failed = 0;
    bar.inert = true;
    try {
      for (let start = 0; start < ids.length; start += IDS_PER_REQUEST) {
        const chunk = ids.slice(start, start + IDS_PER_REQUEST);
        const { results } = await request(method, path, { image_ids: chunk, ...body });
        for (const result of results) {
          if (result.status === "failed") failed++;
          else onItem(byId.get(result.id), result.status);
        }
        status.textContent = say("progress", { done: Math.min(start + IDS_PER_REQUEST, ids.length), total: ids.length });
      }
      status.textContent = failed ? counted("some_failed", failed) : texts.done;
    } catch (error) {
      status.textContent = describe(error);
    } finally {
      bar.inert = false;
      refresh();
      // An inert or hidden element loses the focus.
      if (bar.hidden) document.getElementById("main").focus();
      else focused.focus();
    }
  }

  const remove = (item) => {
    selected.delete(item);
    item.remove();
  };
  const setPublic = (isPublic) =>
    change("PATCH", "/images", { is_public: isPublic }, (item, result) => {
      if (result === "not_found") remove(item);
      else location.search.includes("is_public=") ? remove(item) : showVisibility(item, isPublic);
    });

  function showVisibility(item, isPublic) {
    if (item.tagName === "TR") {
      item.cells[5].textContent = isPublic ? texts.public : texts.private;
      return;
    }
    item.querySelector(".badge:not(.animated)")?.remove();
    if (isPublic) return;
    item.append(Object.assign(document.createElement("span"), { className: "badge", textContent: texts.private }));
  }

  /** Returns the records of the selected images: by the list, as long as that takes fewer requests than images. */
  async function readRecords() {
    const ids = items().filter((item) => selected.has(item)).map((item) => item.dataset.id);
    const missing = new Set(ids);
    const records = new Map();
    const query = new URLSearchParams(library.dataset.query);
    query.set("per_page", IDS_PER_REQUEST);
    for (let pages = Math.ceil(items().length / IDS_PER_REQUEST) + 1; pages > 0 && missing.size > pages; pages--) {
      const { images, pagination } = await request("GET", `/images?${query}`);
      for (const image of images) if (missing.delete(image.id)) records.set(image.id, image);
      status.textContent = say("progress", { done: records.size, total: ids.length });
      if (!pagination.next_cursor) break;
      query.set("cursor", pagination.next_cursor);
    }
    for (const id of missing) records.set(id, await request("GET", `/images/${id}`));
    return ids.map((id) => records.get(id));
  }

  async function copyLinks(format) {
    try {
      const links = readRecords().then((records) => records.map((record) => record.links[format]));
      const isCopied = await copyText(links.then((lines) => lines.join("\n")));
      status.textContent = isCopied ? counted("links_copied", (await links).length) : texts.copy_failed;
    } catch (error) {
      status.textContent = describe(error);
    }
  }

  function moveTo({ value, selectedOptions }) {
    if (value === "-") return;
    const name = value ? selectedOptions[0].textContent : "";
    change("PATCH", "/images", { album_id: value ? Number(value) : null }, (item) => {
      if (new URLSearchParams(location.search).get("album_id")) remove(item);
      else if (item.tagName === "TR") item.cells[6].textContent = name;
    });
  }

  bar.addEventListener("click", (event) => {
    const action = event.target.closest("button")?.dataset.action;
    if (action === "all") items().forEach((item) => mark(item, true));
    if (action === "none") [...selected].forEach((item) => mark(item, false));
    if (action === "public") setPublic(true);
    if (action === "private") setPublic(false);
    if (action === "delete" && confirm(counted("confirm_delete", selected.size))) {
      change("POST", "/images/delete", {}, remove);
    }
    // The choice itself changes nothing: the arrow keys of a keyboard pass over all values.
    if (action === "album") moveTo(bar.querySelector("[data-choice=album]"));
    if (action === "copy") copyLinks(bar.querySelector("[data-choice=copy]").value);
    refresh();
  });

  addCheckboxes(items());
  new MutationObserver((changes) => addCheckboxes(changes.flatMap((one) => [...one.addedNodes]).filter((n) => n.dataset?.id))).observe(
    grid.tBodies?.[0] ?? grid,
    { childList: true },
  );
  showPlaceholders(grid);
  scrollEndlessly(grid, texts);
  rememberList(grid);
}

if (grid) start();
