// Selection of many images of the account, and changes of the selected ones; a deletion can be undone for seconds.

import { ApiError, connect } from "./api.js";
import { copyText } from "./clipboard.js";
import { deferDeletion } from "./deletion.js";
import { selectByDragging } from "./drag.js";
import { describeFailure } from "./failures.js";
import { focusList } from "./keyboard.js";
import { keepInPlace, place } from "./place.js";
import { fetchPatiently } from "./patience.js";
import { csrfToken, describeSession, readSession } from "./session.js";

const IDS_PER_REQUEST = 100;
const MAX_UNDONE = 1000; // images of a deletion that can be undone: one that is larger takes longer than leaving the page
const MAX_KEPT = 5000; // ids that are kept for a reload
const texts = JSON.parse(document.getElementById("texts").textContent);
const grid = document.getElementById("grid");
const tools = document.getElementById("tools");
const announced = document.getElementById("announced");
const outcome = document.getElementById("outcome"); // scrolling has a status of its own
const say = (key, values) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const settings = document.getElementById("selection");
const albumId = new URLSearchParams(settings.dataset.query).get("album_id");
const onWait = (seconds) => (outcome.textContent = say("waiting", { seconds }));
const request = connect(onWait);

const formatted = (count) => count.toLocaleString(document.documentElement.lang, { useGrouping: count >= 10_000 });
const askToStay = (event) => event.preventDefault(); // the rest would not be changed
const counted = (key, count) => say(`${key}.${String(count) === "1" ? "one" : "other"}`, { count });

/** Says what became of a request; the selection stays as it is. */
function report(error) {
  if (!(error instanceof ApiError)) outcome.textContent = texts.connection;
  // After signing in in another tab, the CSRF token of this page is that of the new session.
  else if (error.code && (error.status === 401 || error.status === 403)) outcome.replaceChildren(describeSession("ended"));
  else outcome.textContent = error.code ? describeFailure(error) : say("foreign", { status: error.status });
}

function start() {
  const selected = new Map(); // items by id; undefined for those that are not loaded
  const removed = new Set(); // ids; a page of the list that was requested before still has them
  const earlier = new Set(place.selected); // ids of images that may not be loaded yet
  const bar = document.getElementById("selection-bar").content.firstElementChild.cloneNode(true);
  const count = bar.querySelector(".count");
  const actions = bar.querySelectorAll("button:not([data-action=all], [data-action=none])");
  let last = null;
  let reading = null; // the request for the ids of the list
  bar.hidden = true;
  tools.append(bar);
  // What gets the focus is scrolled to above the bar.
  new ResizeObserver(() => document.documentElement.style.setProperty("--tools", `${tools.offsetHeight}px`)).observe(tools);

  const items = () => [...grid.querySelectorAll("[data-id]:not([hidden])")];

  function addCheckboxes(root) {
    for (const item of root) {
      if (removed.has(item.dataset.id)) item.remove();
      if (item.querySelector("input")) continue;
      const box = document.createElement("input");
      box.type = "checkbox";
      box.tabIndex = -1; // the keyboard has Space on the image
      box.ariaLabel = `${texts.select}: ${item.querySelector("img").alt}`;
      (item.tagName === "TR" ? item.cells[0] : item).prepend(box);
      if (earlier.delete(item.dataset.id) || selected.has(item.dataset.id)) show(item, true);
    }
    refresh();
  }

  function refresh() {
    bar.hidden = selected.size === 0 && !reading;
    for (const button of actions) button.disabled = reading !== null;
    count.textContent = describeSelection();
  }

  const describeSelection = () => (reading ? texts.selecting : counted("selected", formatted(selected.size)));

  /** Says to screen readers what the keyboard has selected. */
  function announce(text = "") {
    announced.textContent = `${text} ${describeSelection()}`;
  }

  function show(item, isSelected) {
    item.querySelector("input").checked = isSelected;
    item.classList.toggle("selected", isSelected);
    if (isSelected) selected.set(item.dataset.id, item);
    else selected.delete(item.dataset.id);
  }

  function mark(item, isSelected) {
    outcome.textContent = ""; // of the change before
    show(item, isSelected);
  }

  /** Selects all images of the list, with its filters, also those that are not loaded. */
  async function selectAll() {
    if (reading) return;
    // What is loaded is the reader's from here on: one that is deselected meanwhile stays so.
    const known = new Set([...grid.querySelectorAll("[data-id]")].map((item) => item.dataset.id));
    for (const item of items()) mark(item, true);
    if (document.querySelector(".pager")) await selectRest(known);
    refresh();
    announce();
  }

  /** Selects the images of the list that are not known; until their ids are read, nothing can be changed. */
  async function selectRest(known) {
    const request = (reading = new AbortController());
    refresh();
    try {
      const url = `${document.body.dataset.root}/images/ids?${settings.dataset.filters}`;
      const response = await fetchPatiently(url, { signal: request.signal }, (seconds) => request === reading && onWait(seconds));
      if (!response.ok) throw new ApiError(response.status, (await response.json().catch(() => ({}))).error);
      const ids = (await response.text()).split(" ");
      if (request !== reading) return;
      const loaded = new Map(items().map((item) => [item.dataset.id, item]));
      for (const id of ids) {
        if (!id || known.has(id)) continue;
        if (loaded.has(id)) show(loaded.get(id), true);
        else selected.set(id, undefined);
      }
      outcome.textContent = "";
    } catch (error) {
      if (request === reading) report(error);
    } finally {
      if (request === reading) reading = null;
    }
  }

  function selectNone() {
    reading?.abort();
    reading = null;
    outcome.textContent = "";
    for (const item of items()) mark(item, false);
    selected.clear();
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
    const isSelected = box ? box.checked : !selected.has(item.dataset.id);
    // Shift selects all from the last one that was clicked.
    for (const member of event.shiftKey ? between(last, item) : [item]) mark(member, isSelected);
    last = item;
    refresh();
  }, { capture: true });

  grid.addEventListener("keydown", (event) => {
    const item = event.target.closest("[data-id]");
    if (event.key !== " " || !item || event.target.matches("input")) return;
    event.preventDefault();
    const isSelected = !selected.has(item.dataset.id);
    for (const member of event.shiftKey ? between(last, item) : [item]) mark(member, isSelected);
    last = item;
    refresh();
    announce(say(isSelected ? "marked" : "unmarked", { name: item.querySelector("img").alt }));
  });

  addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input:not([type=checkbox]), textarea, select") || document.querySelector(":modal, :popover-open");
    if (isTyping || event.defaultPrevented || event.altKey || event.shiftKey) return;
    const isWithControl = event.ctrlKey || event.metaKey;
    if (isWithControl && event.key === "a") selectAll();
    else if (isWithControl || bar.hidden) return;
    else if (event.key === "Escape") selectNone();
    else if (event.key === "Delete") return reading || bar.inert ? undefined : deleteSelected();
    else return;
    event.preventDefault();
    refresh();
    announce();
  });

  selectByDragging(grid, {
    between,
    isSelected: (item) => selected.has(item.dataset.id),
    mark: (item, isSelected) => {
      mark(item, isSelected);
      refresh();
    },
  });

  async function change(method, path, body, onItem) {
    const focused = document.activeElement;
    const ids = [...selected.keys()];
    let failed = 0;
    let madePrivate = 0;
    outcome.textContent = ""; // of the change before
    bar.inert = true;
    addEventListener("beforeunload", askToStay);
    try {
      for (let start = 0; start < ids.length; start += IDS_PER_REQUEST) {
        const chunk = ids.slice(start, start + IDS_PER_REQUEST);
        const { results, made_private_count } = await request(method, path, { image_ids: chunk, ...body });
        madePrivate += made_private_count ?? 0;
        // Meanwhile the list may have loaded some of them.
        const byId = new Map(items().map((item) => [item.dataset.id, item]));
        for (const result of results) {
          const item = byId.get(result.id);
          if (result.made_private && item) showVisibility(item, false);
          if (result.status === "failed") failed++;
          else onItem(result.id, item, result.status);
        }
        outcome.textContent = say("progress", { done: Math.min(start + IDS_PER_REQUEST, ids.length), total: ids.length });
      }
      const done = madePrivate ? `${texts.done}. ${counted("made_private", madePrivate)}` : texts.done;
      outcome.textContent = failed ? counted("some_failed", failed) : done;
    } catch (error) {
      report(error);
    } finally {
      bar.inert = false;
      removeEventListener("beforeunload", askToStay);
      refresh();
      // An inert or hidden element loses the focus.
      if (bar.hidden) focusList();
      else focused.focus();
    }
  }

  /** Changes images that leave the list; meanwhile it loads no others in their place, which may leave it too. */
  async function changeAndRemove(...parameters) {
    grid.ariaBusy = "true";
    try {
      await change(...parameters);
    } finally {
      grid.ariaBusy = null;
    }
  }

  const deletion = deferDeletion(request, {
    remove: (item) => remove(item.dataset.id, item),
    describe: (count) => counted("deleted", count),
    onDone: (failed) => (outcome.textContent = failed ? counted("some_failed", failed) : texts.done),
    onError: (error) => (report(error)),
  });

  function deleteSelected() {
    const leaving = [...selected.values()];
    if (leaving.length <= MAX_UNDONE && leaving.every((item) => item)) {
      selectNone();
      refresh();
      return deletion.begin(leaving);
    }
    if (!confirm(say("delete_question", { count: formatted(leaving.length) }))) return;
    changeAndRemove("POST", "/images/delete", {}, remove);
  }

  function remove(id, item) {
    selected.delete(id);
    removed.add(id);
    item?.remove();
    const total = document.getElementById("total");
    if (!total.dataset.count) return; // such as of a search
    const count = --total.dataset.count;
    total.textContent = counted("count", formatted(count));
  }

  function setPublic(isPublic) {
    const shown = new URLSearchParams(settings.dataset.query).get("is_public") ?? String(isPublic);
    const isLeaving = shown !== String(isPublic);
    (isLeaving ? changeAndRemove : change)("PATCH", "/images", { is_public: isPublic }, (id, item, result) => {
      if (result === "not_found" || isLeaving) remove(id, item);
      else if (item) showVisibility(item, isPublic);
    });
  }

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
    const shown = items().map((item) => item.dataset.id).filter((id) => selected.has(id));
    const ids = [...new Set([...shown, ...selected.keys()])];
    const missing = new Set(ids);
    const records = new Map();
    const query = new URLSearchParams(shown.length < ids.length ? settings.dataset.filters : settings.dataset.query);
    query.set("per_page", IDS_PER_REQUEST);
    const length = Math.max(items().length, ids.length);
    for (let pages = Math.ceil(length / IDS_PER_REQUEST) + 1; pages > 0 && missing.size > pages; pages--) {
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
    const isLeaving = albumId && albumId !== value;
    (isLeaving ? changeAndRemove : change)("PATCH", "/images", { album_id: value ? Number(value) : null }, (id, item) => {
      if (isLeaving) remove(id, item);
      else if (item?.tagName === "TR") item.cells[6].textContent = name;
    });
  }

  /** Sends a form, to which the site answers with an archive: the page stays. */
  async function download() {
    const state = await readSession();
    // What browsers say of a form that fails would replace the page and its selection.
    if (state === "unreachable") return void (outcome.textContent = texts.connection);
    if (state !== "valid") return outcome.replaceChildren(describeSession(state));
    const form = document.createElement("form");
    form.method = "post";
    form.action = `${document.body.dataset.root}/selection.zip`;
    const fields = { csrf_token: csrfToken(), image_ids: [...selected.keys()].join(" ") };
    for (const [name, value] of Object.entries(fields)) {
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
    document.body.append(form);
    form.submit();
    form.remove();
  }

  bar.addEventListener("click", (event) => {
    const action = event.target.closest("button")?.dataset.action;
    if (action === "all") selectAll();
    if (action === "none") selectNone();
    if (action === "download") download();
    if (action === "public") setPublic(true);
    if (action === "private") setPublic(false);
    if (action === "delete") deleteSelected();
    // The choice itself changes nothing: the arrow keys of a keyboard pass over all values.
    if (action === "album") moveTo(bar.querySelector("[data-choice=album]"));
    if (action === "copy") copyLinks(bar.querySelector("[data-choice=copy]").value);
    refresh();
  });

  keepInPlace("selected", () => (selected.size > MAX_KEPT ? [] : [...earlier, ...selected.keys()]));
  addCheckboxes(items());
  new MutationObserver((changes) => addCheckboxes(changes.flatMap((one) => [...one.addedNodes]).filter((n) => n.dataset?.id))).observe(
    grid.tBodies?.[0] ?? grid,
    { childList: true },
  );
}

if (grid) start();
