// The uploader: a form whose files are sent one by one, each with its progress, result or error.

import { copyField } from "./clipboard.js";
import { describeFailure, fieldsOf } from "./failures.js";
import { filesOfFolder, hasFiles } from "./files.js";
import { UploadQueue } from "./queue.js";
import { describeSession } from "./session.js";

const STORAGE_KEY = "imagehost-upload-options";
// Errors of the file itself: sending it again has the same outcome.
const FINAL_ERRORS = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "VALIDATION_ERROR", "BAD_REQUEST", "proxy_size"];
const THUMBNAIL_SECONDS = [1, 2, 4, 8, 15, 30, 60]; // until it is asked for again, if it cannot be rendered now
// What the server says about the content of a file that it refuses, and the text that says what to do.
const KINDS = {
  "0 bytes": (texts) => texts.kind_empty,
  HEIC: (texts) => texts.kind_heic,
  PDF: (texts) => texts.kind_pdf,
  SVG: (texts) => texts.kind_svg,
  "a video": (texts) => texts.kind_video,
  "a ZIP archive": (texts) => texts.kind_archive,
};

const element = (name, properties = {}, ...children) => {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
};

export const formatBytes = (bytes) => {
  const units = ["B", "kB", "MB", "GB"];
  let index = 0;
  for (; bytes >= 999.5 && index < units.length - 1; index++) bytes /= 1000;
  const digits = index && bytes < 99.5 ? 1 : 0;
  const format = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${bytes.toLocaleString(document.documentElement.lang, format)} ${units[index]}`;
};

/** Extends the form in an element with the id `uploader`; returns a function that adds files. */
export function mountUploader(root) {
  const texts = JSON.parse(root.querySelector(".texts").textContent);
  const form = root.querySelector("form");
  const input = form.querySelector("input[type=file]");
  const list = element("ul", { className: "uploads" });
  const status = element("p", { className: "status" });
  status.setAttribute("role", "status");
  status.tabIndex = -1;
  const results = buildResults(root, texts);
  const rows = new Map();
  const skippedLine = element("p", { className: "muted", hidden: true });
  const retryAll = element("button", { type: "button", className: "plain", textContent: texts.retry_all, hidden: true });
  let held = "";
  let skipped = 0;

  const text = (key, values = {}) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const counted = (key, count) => text(`${key}.${count === 1 ? "one" : "other"}`, { count });
  const queue = new UploadQueue({
    fields: () => readOptions(form),
    onChange: (item) => {
      update(item);
      summarize();
    },
    onPause: (seconds) => {
      // Screen readers say the first number only.
      if (status.dataset.paused) status.ariaLive = "off";
      status.dataset.paused = seconds || "";
      const time = new Date(queue.pausedUntil).toLocaleTimeString(document.documentElement.lang, { timeStyle: "short" });
      status.textContent = !seconds ? "" : seconds > 120 ? text("paused_until", { time }) : text("paused", { seconds });
    },
    onHold: (state) => {
      held = state;
      for (const { items } of queue.held) items.forEach(update);
      if (state) status.replaceChildren(describeSession(state));
      else summarize();
    },
  });

  function addRow(item) {
    const preview = element("img", { width: 160, height: 128, alt: "" });
    // Browsers decode a large image to show it small; this many are enough.
    if (item.file.size < 30e6 && rows.size < 300) preview.src = URL.createObjectURL(item.file);
    preview.onload = preview.onerror = ({ type }) => {
      URL.revokeObjectURL(preview.src);
      // Instead of the icon of a broken image.
      preview.style.visibility = type === "error" ? "hidden" : "";
    };
    const progress = element("progress", { max: Math.max(1, item.file.size), value: 0 });
    progress.ariaLabel = item.file.name;
    const message = element("span", { className: "muted small" });
    const cancel = element("button", { type: "button", className: "plain", textContent: texts.cancel });
    const retry = element("button", { type: "button", className: "plain", textContent: texts.retry, hidden: true });
    cancel.ariaLabel = `${texts.cancel}: ${item.file.name}`;
    retry.ariaLabel = `${texts.retry}: ${item.file.name}`;
    cancel.onclick = () => queue.cancel(item);
    retry.onclick = () => queue.retry(item);
    const row = element(
      "li",
      {},
      preview,
      element("div", { className: "progress" }, element("strong", { textContent: item.file.name }), progress, message),
      cancel,
      retry,
    );
    rows.set(item, { row, progress, message, cancel, retry });
    list.append(row);
    update(item);
  }

  function describe(item) {
    const size = formatBytes(item.file.size);
    switch (held && ["sending", "processing"].includes(item.state) ? "waiting" : item.state) {
      case "waiting":
        return `${texts.waiting} · ${size}`;
      case "sending":
        return `${formatBytes(item.sent)} / ${size} · ${formatBytes(item.batch.speed || 0)}/s`;
      case "processing":
        return texts.processing;
      case "done":
        return `${item.image.width} × ${item.image.height} · ${formatBytes(item.image.size)}`;
      case "cancelled":
        return texts.cancelled;
      default:
        return describeError(item);
    }
  }

  // Another choice of an option may help.
  const isOfOption = (error) => fieldsOf(error).some((name) => form.elements.namedItem(name));
  const canRetry = ({ state, error }) =>
    state === "cancelled" || (state === "failed" && (isOfOption(error) || !FINAL_ERRORS.includes(error.code)));

  function describeError(item) {
    const { code, status, details } = item.error;
    if (code === "connection") return texts.connection;
    if (code === "foreign") return text("foreign", { status });
    if (code === "proxy_size") return text("foreign_size", { status });
    const received = details?.match(/ but received (.*)$/)?.[1];
    if (code === "UNSUPPORTED_MEDIA_TYPE" && received && received !== "another format") {
      return KINDS[received]?.(texts) ?? text("kind_other", { kind: received });
    }
    return describeFailure(item.error);
  }

  function update(item) {
    const view = rows.get(item);
    if (!view) return;
    view.row.className = item.state;
    view.progress.value = item.sent;
    view.progress.hidden = !["sending", "processing"].includes(item.state);
    view.message.textContent = describe(item);
    view.cancel.hidden = !["waiting", "sending"].includes(item.state);
    view.retry.hidden = !canRetry(item);
    if (item.state === "done" && !item.isShown) {
      item.isShown = true;
      const preview = view.row.querySelector("img");
      showThumbnail(preview, item.image.thumb_url);
      const name = view.row.querySelector("strong");
      name.replaceChildren(element("a", { href: `${document.body.dataset.root}/images/${item.image.id}`, textContent: item.file.name }));
      results.add(item.image);
    }
  }

  /** Shows the thumbnail as soon as it can be rendered; until then the file itself is shown. */
  function showThumbnail(preview, url, attempt = 0) {
    const loader = new Image();
    loader.onload = () => {
      URL.revokeObjectURL(preview.src);
      preview.src = url;
    };
    loader.onerror = () => {
      const seconds = THUMBNAIL_SECONDS[attempt];
      if (seconds) setTimeout(showThumbnail, 1000 * seconds, preview, url, attempt + 1);
    };
    loader.src = url;
  }

  function summarize() {
    retryAll.hidden = queue.items.filter(({ state }) => state === "failed").filter(canRetry).length < 2;
    if (held || Date.now() < queue.pausedUntil) return;
    const count = (state) => queue.items.filter((item) => item.state === state).length;
    const open = count("waiting") + count("sending") + count("processing");
    const values = { done: count("done"), failed: count("failed"), total: queue.items.length };
    const summary = open ? text("running", values) : text("finished", values);
    status.ariaLive = "polite";
    if (status.textContent !== summary) status.textContent = summary;
  }

  function add(files, left = 0) {
    skipped += left;
    skippedLine.hidden = skipped === 0;
    skippedLine.textContent = counted("skipped", skipped);
    if (files.length === 0) return;
    root.classList.add("has-files");
    queue.add(files).forEach(addRow);
    summarize();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  input.required = false;
  input.classList.add("cover");
  input.addEventListener("change", () => {
    add(input.files);
    input.value = "";
  });
  form.querySelector(".actions").remove();
  const sources = element("span", { className: "sources" });
  const addSource = (textContent, properties, attribute, value) => {
    const source = element("input", { type: "file", hidden: true, ...properties });
    source.setAttribute(attribute, value);
    source.addEventListener("change", () => {
      const found = filesOfFolder(source.files);
      add(found.files, found.skipped);
      source.value = "";
    });
    const open = element("button", { type: "button", className: "plain", textContent });
    open.onclick = () => source.click();
    sources.append(open, source);
  };
  // Phones have a camera, but most of their browsers choose no folders.
  if (matchMedia("(pointer: coarse)").matches) addSource(texts.camera, { accept: "image/*" }, "capture", "environment");
  else if ("webkitdirectory" in input) addSource(texts.folder, {}, "webkitdirectory", "");
  input.after(sources);
  restoreOptions(form);
  const metadata = form.elements.namedItem("remove_exif");
  const places = element("span");
  const change = element("button", { type: "button", className: "plain", textContent: texts.places_change });
  change.onclick = () => {
    form.querySelector("details").open = true;
    metadata.focus();
  };
  const visibility = form.elements.namedItem("is_public");
  const album = form.elements.namedItem("album_id");
  const audience = form.querySelector(".audience span");
  /** Says who will see the images, and whether they tell places. */
  const sayEffects = () => {
    places.textContent = metadata.value === "true" ? texts.places_removed : texts.places_kept;
    const isInPrivate = "private" in (album.selectedOptions[0]?.dataset ?? {});
    const isPrivate = visibility.value === "false" || (visibility.value === "" && isInPrivate);
    const ofPublic = isInPrivate ? texts.audience_links : texts.audience_public;
    audience.textContent = isPrivate ? texts.audience_private : ofPublic;
  };
  form.addEventListener("change", sayEffects);
  sayEffects();
  form.querySelector(".drop").after(element("p", { className: "places" }, places, change));
  // Options that were chosen before must not act unseen.
  form.querySelector("details").open = [...form.querySelectorAll("details [name]")].some((option) =>
    option.tagName === "SELECT" ? option.selectedIndex > 0 : option.value !== "",
  );
  form.addEventListener("change", () => storeOptions(form));
  form.after(status, element("p", {}, retryAll), skippedLine, list, results.section);

  document.addEventListener("paste", (event) => {
    if (!hasFiles(event.clipboardData)) return;
    event.preventDefault();
    add([...event.clipboardData.files]);
  });
  addEventListener("beforeunload", (event) => {
    if (queue.items.some(({ state }) => ["waiting", "sending", "processing"].includes(state))) event.preventDefault();
  });
  retryAll.onclick = () => {
    queue.retry(...queue.items.filter((item) => item.state === "failed" && canRetry(item)));
    status.focus(); // the button is hidden now
  };
  return ({ files, skipped: left }) => add(files, left);
}

function readOptions(form) {
  const fields = [];
  for (const [name, value] of new FormData(form)) {
    if (name === "files[]" || name === "csrf_token" || value === "") continue;
    if (name === "format" && value === "original") fields.push(["convertToWebP", "false"]);
    else fields.push([name, value]);
  }
  return fields;
}

// What the page presets for its album is no choice.
const optionsOf = (form) => [...form.querySelectorAll("details [name], .audience [name]:not([data-preset])")];

function storeOptions(form) {
  const values = Object.fromEntries(optionsOf(form).map(({ name, value }) => [name, value]));
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(values));
  } catch {
    // The browser stores nothing.
  }
}

function restoreOptions(form) {
  let values = {};
  try {
    values = JSON.parse(localStorage.getItem(STORAGE_KEY)) ?? {};
  } catch {
    // Another version, or no storage.
  }
  for (const [name, value] of Object.entries(values)) {
    const control = form.elements.namedItem(name);
    // No choice of another day publishes what is uploaded into a private album.
    if (name === "is_public" && (value === "true" || "preset" in control.dataset)) continue;
    const isChosen = name === "album_id" && control?.value !== "";
    if (control && !isChosen && (control.tagName !== "SELECT" || [...control.options].some((o) => o.value === value))) {
      control.value = value;
    }
  }
}

/** Builds the panel with the links of all images that were stored. */
function buildResults(root, texts) {
  const images = [];
  const format = element("select", { id: "links-format" });
  for (const name of root.dataset.links.split(" ")) format.append(element("option", { value: name, textContent: texts[name] }));
  if (root.dataset.variants) format.append(element("option", { value: "variant", textContent: texts.variant }));
  const width = element("input", { id: "links-width", type: "number", min: 1, max: 8192, value: 800 });
  const widthField = element("p", { className: "field", hidden: true }, label("links-width", texts.width), width);
  const area = element("textarea", { id: "links", readOnly: true, rows: 4 });
  const copy = element("button", { type: "button", textContent: texts.copy_all });
  const section = element(
    "section",
    { className: "results", hidden: true },
    element("p", { className: "field" }, label("links-format", texts.links), format),
    widthField,
    element("p", { className: "field" }, label("links", texts.links_of_all), area),
    element("p", {}, copy),
  );
  const link = (image) => {
    if (format.value !== "variant") return image.links[format.value];
    return `${image.url}?w=${Number(width.value) || 800}`;
  };
  const render = () => {
    widthField.hidden = format.value !== "variant";
    area.value = images.map(link).join("\n");
    section.hidden = images.length === 0;
  };
  format.onchange = width.oninput = render;
  copy.onclick = async () => {
    if (!(await copyField(area))) return;
    copy.textContent = texts.copied;
    setTimeout(() => (copy.textContent = texts.copy_all), 2000);
  };
  render();
  return {
    section,
    add: (image) => {
      images.push(image);
      render();
    },
  };
}

const label = (target, textContent) => element("label", { htmlFor: target, textContent });
