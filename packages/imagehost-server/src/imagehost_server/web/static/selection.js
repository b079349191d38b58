// Selection of many images of the account, and changes of the selected ones; a deletion can be undone for seconds.

import { ApiError, connect } from "./api.js";
import { copyText } from "./clipboard.js";
import { deferDeletion } from "./deletion.js";
import { selectByDragging } from "./drag.js";
import { describeFailure } from "./failures.js";
import { keepInPlace, place } from "./place.js";
import { describeSession } from "./session.js";

const IDS_PER_REQUEST = 100;
const texts = JSON.parse(document.getElementById("texts").textContent);
const grid = document.getElementById("grid");
const tools = document.getElementById("tools");
const announced = document.getElementById("announced");
const outcome = document.getElementById("outcome"); // scrolling has a status of its own
const say = (key, values) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const settings = document.getElementById("selection");
const albumId = new URLSearchParams(settings.dataset.query).get("album_id");
const request = connect((seconds) => (outcome.textContent = say("waiting", { seconds })));

const counted = (key, count) => say(`${key}.${String(count) === "1" ? "one" : "other"}`, { count });

/** Says what became of a request; the selection stays as it is. */
function report(error) {
  if (!(error instanceof ApiError)) outcome.textContent = texts.connection;
  // After signing in in another tab, the CSRF token of this page is that of the new session.
  else if (error.code && (error.status === 401 || error.status === 403)) outcome.replaceChildren(describeSession("ended"));
  else outcome.textContent = error.code ? describeFailure(error) : say("foreign", { status: error.status });
}

function start() {
  const selected = new Set();
  const earlier = new Set(place.selected); // ids of images that may not be loaded yet
  const bar = document.getElementById("selection-bar").content.firstElementChild.cloneNode(true);
  const count = bar.querySelector(".count");
  let last = null;
  bar.hidden = true;
  tools.append(bar);
  // What gets the focus is scrolled to above the bar.
  new ResizeObserver(() => document.documentElement.style.setProperty("--tools", `${tools.offsetHeight}px`)).observe(tools);

  const items = () => [...grid.querySelectorAll("[data-id]:not([hidden])")];

  function addCheckboxes(root) {
    for (const item of root) {
      if (item.querySelector("input")) continue;
      const box = document.createElement("input");
      box.type = "checkbox";
      box.tabIndex = -1; // the keyboard has Space on the image
      box.ariaLabel = `${texts.select}: ${item.querySelector("img").alt}`;
      (item.tagName === "TR" ? item.cells[0] : item).prepend(box);
      if (earlier.delete(item.dataset.id)) mark(item, true);
    }
    refresh();
  }

  function refresh() {
    bar.hidden = selected.size === 0;
    count.textContent = counted("selected", selected.size);
  }

  /** Says to screen readers what the keyboard has selected. */
  function announce(text = "") {
    announced.textContent = `${text} ${counted("selected", selected.size)}`;
  }

  function mark(item, isSelected) {
    outcome.textContent = ""; // of the change before
    item.querySelector("input").checked = isSelected;
    item.classList.toggle("selected", isSelected);
    if (isSelected) selected.add(item);
    else selected.delete(item);
  }

  /** Returns the images from one to another, in either direction. */
  function between(first, second) {
    const all = items();
    const [from, to] = [all.indexOf(first), all.indexOf(second)].sort((a, b) => a - b);
    return from < 0 ? [second] : all.slice(from, to + 1);
  }

  // Before the handlers that open an image.
  grid.addEventListener("click", (event) => {
    const item = event.target.closest("[data-id]");
    const box = event.target.closest("input[type=checkbox]");
    // While images are selected, a click on another selects it too; with a keyboard, Enter still opens it.
    const isToggled = item?.matches("li") && event.target.closest("a") && selected.size > 0 && event.detail > 0;
    if (!item || !(box || isToggled) || event.ctrlKey || event.metaKey) return;
    if (!box) {
      event.preventDefault();
      event.stopPropagation();
    }
    const isSelected = box ? box.checked : !selected.has(item);
    // Shift selects all from the last one that was clicked.
    for (const member of event.shiftKey ? between(last, item) : [item]) mark(member, isSelected);
    last = item;
    refresh();
  }, { capture: true });

  grid.addEventListener("keydown", (event) => {
    const item = event.target.closest("[data-id]");
    if (event.key !== " " || !item || event.target.matches("input")) return;
    event.preventDefault();
    const isSelected = !selected.has(item);
    for (const member of event.shiftKey ? between(last, item) : [item]) mark(member, isSelected);
    last = item;
    refresh();
    announce(say(isSelected ? "marked" : "unmarked", { name: item.querySelector("img").alt }));
  });

  addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input:not([type=checkbox]), textarea, select") || document.querySelector(":modal, :popover-open");
    if (isTyping || event.defaultPrevented || event.altKey || event.shiftKey) return;
    const isWithControl = event.ctrlKey || event.metaKey;
    if (isWithControl && event.key === "a") items().forEach((item) => mark(item, true));
    else if (isWithControl || selected.size === 0) return;
    else if (event.key === "Escape") [...selected].forEach((item) => mark(item, false));
    else if (event.key === "Delete") return deleteSelected();
    else return;
    event.preventDefault();
    refresh();
    announce();
  });

  selectByDragging(grid, {
    between,
    isSelected: (item) => selected.has(item),
    mark: (item, isSelected) => {
      mark(item, isSelected);
      refresh();
    },
  });

  async function change(method, path, body, onItem) {
    const focused = document.activeElement;
    const ids = [...selected].map((item) => item.dataset.id);
    const byId = new Map([...selected].map((item) => [item.dataset.id, item]));
    let failed = 0;
    let madePrivate = 0;
    bar.inert = true;
    try {
      for (let start = 0; start < ids.length; start += IDS_PER_REQUEST) {
        const chunk = ids.slice(start, start + IDS_PER_REQUEST);
        const { results, made_private_count } = await request(method, path, { image_ids: chunk, ...body });
        madePrivate += made_private_count ?? 0;
        for (const result of results) {
          if (result.made_private) showVisibility(byId.get(result.id), false);
          if (result.status === "failed") failed++;
          else onItem(byId.get(result.id), result.status);
        }
        outcome.textContent = say("progress", { done: Math.min(start + IDS_PER_REQUEST, ids.length), total: ids.length });
      }
      const done = madePrivate ? `${texts.done}. ${counted("made_private", madePrivate)}` : texts.done;
      outcome.textContent = failed ? counted("some_failed", failed) : done;
    } catch (error) {
      report(error);
    } finally {
      bar.inert = false;
      refresh();
      // An inert or hidden element loses the focus.
      if (bar.hidden) document.getElementById("main").focus();
      else focused.focus();
    }
  }

  const deletion = deferDeletion(request, {
    remove,
    describe: (count) => counted("deleted", count),
    onDone: (failed) => (outcome.textContent = failed ? counted("some_failed", failed) : texts.done),
    onError: (error) => (report(error)),
  });

  function deleteSelected() {
    const leaving = [...selected];
    for (const item of leaving) mark(item, false);
    refresh();
    deletion.begin(leaving);
  }

  function remove(item) {
    selected.delete(item);
    item.remove();
    const total = document.getElementById("total");
    if (!total.dataset.count) return; // such as of a search
    const count = --total.dataset.count;
    total.textContent = counted("count", count.toLocaleString(document.documentElement.lang, { useGrouping: count >= 10_000 }));
  }
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
    item.toggleAttribute("data-private", !isPublic);
    item.querySelector(".badge:not(.animated)")?.remove();
    if (isPublic) return;
    item.append(Object.assign(document.createElement("span"), { className: "badge", textContent: texts.private }));
  }

  /** Returns the records of the selected images: by the list, as long as that takes fewer requests than images. */
  async function readRecords() {
    const ids = items().filter((item) => selected.has(item)).map((item) => item.dataset.id);
    const missing = new Set(ids);
    const records = new Map();
    const query = new URLSearchParams(settings.dataset.query);
    query.set("per_page", IDS_PER_REQUEST);
    for (let pages = Math.ceil(items().length / IDS_PER_REQUEST) + 1; pages > 0 && missing.size > pages; pages--) {
      const { images, pagination } = await request("GET", `/images?${query}`);
      for (const image of images) if (missing.delete(image.id)) records.set(image.id, image);
      outcome.textContent = say("progress", { done: records.size, total: ids.length });
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
      outcome.textContent = isCopied ? counted("links_copied", (await links).length) : texts.copy_failed;
    } catch (error) {
      report(error);
    }
  }

  function moveTo({ value, selectedOptions }) {
    if (value === "-") return;
    const name = value ? selectedOptions[0].textContent : "";
    change("PATCH", "/images", { album_id: value ? Number(value) : null }, (item) => {
      if (albumId && albumId !== value) remove(item);
      else if (item.tagName === "TR") item.cells[6].textContent = name;
    });
  }

  bar.addEventListener("click", (event) => {
    const action = event.target.closest("button")?.dataset.action;
    if (action === "all") items().forEach((item) => mark(item, true));
    if (action === "none") [...selected].forEach((item) => mark(item, false));
    if (action === "public") setPublic(true);
    if (action === "private") setPublic(false);
    if (action === "delete") deleteSelected();
    // The choice itself changes nothing: the arrow keys of a keyboard pass over all values.
    if (action === "album") moveTo(bar.querySelector("[data-choice=album]"));
    if (action === "copy") copyLinks(bar.querySelector("[data-choice=copy]").value);
    refresh();
  });

  keepInPlace("selected", () => [...earlier, ...[...selected].map((item) => item.dataset.id)]);
  addCheckboxes(items());
  new MutationObserver((changes) => addCheckboxes(changes.flatMap((one) => [...one.addedNodes]).filter((n) => n.dataset?.id))).observe(
    grid.tBodies?.[0] ?? grid,
    { childList: true },
  );
}

if (grid) start();
