// The lightbox: an image of a grid over the whole window, with its neighbours, zoom, details and links.
//
// While it is open, the fragment of the URL is the image's id: Back closes it, and a reload opens it again.

import { copyText } from "./clipboard.js";
import { placeholderUrl } from "./thumbhash.js";
import { sourcesOf } from "./unload.js";
import { zoomable } from "./zoom.js";

const WIDTHS = [320, 640, 960, 1280, 1920];
const MAX_PIXELS = 40e6; // that the server renders
const PATIENCE = 300; // milliseconds until an image that is being loaded is said to be
const isMotionReduced = matchMedia("(prefers-reduced-motion: reduce)");
const ICONS = {
  previous: "M15 5l-7 7 7 7",
  next: "M9 5l7 7-7 7",
  info: "M12 11v6m0-10v.5M12 3a9 9 0 100 18 9 9 0 000-18z",
  zoom: "M11 4a7 7 0 100 14 7 7 0 000-14zm5 12l5 5M8 11h6m-3-3v6",
  download: "M12 4v11m-5-5l5 5 5-5M5 20h14",
  copy: "M10 14a4 4 0 006 0l3-3a4 4 0 00-6-6l-1 1m2 4a4 4 0 00-6 0l-3 3a4 4 0 006 6l1-1",
  share: "M12 15V4m-4 4l4-4 4 4M6 12v8h12v-8",
  open: "M14 4h6v6m0-6l-9 9M10 5H5v14h14v-5",
  close: "M6 6l12 12M18 6L6 18",
};

/**
 * Opens the images of a grid when they are clicked, and the one that the URL names.
 *
 * @param {HTMLElement} grid The list with the id `grid`.
 * @param {object} texts Those of the section `gallery`.
 * @param {Promise<void>} restored Ends when the images of an earlier visit are in the grid.
 */
export async function mountLightbox(grid, texts, restored) {
  let lightbox;
  const find = (id) => [...grid.querySelectorAll("li a")].find((anchor) => idOf(anchor) === id);

  /** Shows what the URL says. */
  function showUrl() {
    const anchor = find(idInUrl());
    if (anchor) (lightbox ??= build(grid, texts)).open(anchor);
    else lightbox?.close();
  }

  grid.addEventListener("click", (event) => {
    const anchor = event.target.closest("li a");
    if (!anchor || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState({ ...history.state, lightbox: true }, "", `#${idOf(anchor)}`);
    showUrl();
  });
  grid.addEventListener("keydown", (event) => {
    const anchor = event.target.closest("li")?.querySelector("a");
    if (event.key !== "i" || !anchor || event.ctrlKey || event.metaKey || event.altKey) return;
    anchor.click();
    lightbox.toggleDetails(true);
  });
  addEventListener("popstate", showUrl);
  showUrl();
  await restored;
  showUrl();
  const id = idInUrl();
  if (!id || find(id)) return;
  // An image further on in the list, or one that was deleted.
  const page = grid.querySelector("li a").href.replace(/\w+$/, id);
  if ((await fetch(page)).ok) location.replace(page);
  else forgetImage();
}

const idOf = (anchor) => anchor.pathname.split("/").pop();
const forgetImage = () => history.replaceState(history.state, "", location.pathname + location.search);
const idInUrl = () => location.hash.match(/^#(\w{16})$/)?.[1];

function build(grid, texts) {
  const dialog = document.createElement("dialog");
  dialog.className = "lightbox";
  const tool = (name, attributes = "", tag = "button") =>
    `<${tag} ${tag === "button" ? 'type="button"' : ""} class="button" data-tool="${name}" ${attributes}>` +
    `<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><path d="${ICONS[name]}"/></svg></${tag}>`;
  const share = navigator.share ? tool("share") : "";
  dialog.innerHTML = `
    <div class="bar-top">
      <p class="title" dir="auto"></p>
      <p class="said" role="status"></p>
      <div class="controls">
        ${tool("zoom")}${tool("info", 'aria-expanded="false"')}${tool("download", "download", "a")}
        ${tool("copy")}${share}${tool("open", "", "a")}${tool("close", "data-close")}
      </div>
    </div>
    <div class="stage"></div>
    ${tool("previous", 'data-step="-1"')}${tool("next", 'data-step="1"')}
    <div class="info" tabindex="0" role="region" hidden></div>`;
  document.body.append(dialog);
  const labels = {
    previous: texts.previous,
    next: texts.next,
    zoom: texts.zoom,
    info: texts.info,
    download: texts.download,
    copy: texts.copy_link,
    share: texts.share,
    open: texts.open,
    close: texts.close,
  };
  for (const element of dialog.querySelectorAll("[data-tool]")) {
    element.ariaLabel = element.title = labels[element.dataset.tool];
  }
  const find = (selector) => dialog.querySelector(selector);
  const [stage, info, said] = [find(".stage"), find(".info"), find(".said")];
  const rightToLeft = getComputedStyle(document.documentElement).direction === "rtl" ? -1 : 1;
  let current, image, details, timer;

  const neighbour = (direction) => {
    let item = current.closest("li");
    do item = direction < 0 ? item.previousElementSibling : item.nextElementSibling;
    while (item?.matches(".month"));
    return item?.querySelector("a");
  };
  const zoom = zoomable(stage, {
    onSwipe: (x, y) => (x ? step(-x * rightToLeft) : y > 0 && dialog.close()),
    onTapOutside: () => dialog.close(),
    onZoom: () => {
      const { full } = urls(current);
      if (image.src !== full) load(full);
    },
  });

  /** Says what happens to the image; "" if it is shown. */
  function report(state) {
    clearTimeout(timer);
    stage.dataset.state = state;
    said.textContent = { loading: texts.loading_image, failed: texts.failed_image }[state] ?? "";
  }

  /** Shows the file in full size once it is loaded, unless another image is shown meanwhile. */
  function load(url) {
    const shown = image;
    const loader = new Image();
    loader.onload = () => {
      shown.srcset = "";
      shown.src = url;
    };
    loader.src = url;
  }

  function show() {
    const source = current.querySelector("img");
    const shown = urls(current);
    // An element of its own: until the new image is loaded, browsers would show the old one in its box.
    const next = Object.assign(document.createElement("img"), { alt: source.alt, draggable: false });
    next.style.backgroundImage = standIn(current);
    next.onload = () => {
      next.style.backgroundImage = "";
      if (next === image) report("");
    };
    next.onerror = () => next === image && report("failed");
    image = next;
    const width = fit();
    image.srcset = shown.srcset;
    image.src = shown.src;
    if (width > WIDTHS.at(-1)) load(shown.full);
    report("");
    if (!image.complete) timer = setTimeout(report, PATIENCE, "loading");
    stage.replaceChildren(image);
    dialog.ariaLabel = source.alt;
    find(".title").textContent = current.querySelector(".caption").textContent;
    find('[data-tool="open"]').href = current.href;
    find('[data-tool="download"]').href = shown.full;
    updateSteps();
    if (!info.hidden) showDetails();
    for (const direction of [-1, 1]) preload(neighbour(direction));
  }

  /** Fits the image into the stage, and returns its width there. */
  function fit() {
    const width = zoom.reset(image, ...sizeOf(current));
    image.sizes = `${width}px`;
    return width;
  }

  function preload(anchor) {
    if (!anchor) return;
    const { src, srcset } = urls(anchor);
    Object.assign(new Image(), { sizes: `${zoom.fittingWidth(...sizeOf(anchor))}px`, srcset, src });
  }

  function updateSteps() {
    for (const direction of [-1, 1]) find(`[data-step="${direction}"]`).disabled = !neighbour(direction);
    // A disabled button loses the focus, and with it the arrow keys.
    if (dialog.open && !dialog.querySelector(":focus:enabled, a:focus, .info:focus")) find("[data-close]").focus();
  }

  function step(direction) {
    const target = neighbour(direction);
    if (!target) return;
    current = target;
    current.scrollIntoView({ block: "nearest" });
    history.replaceState(history.state, "", `#${idOf(current)}`);
    show();
  }

  /** Shows what the page of the image says about it. */
  async function showDetails() {
    const anchor = current;
    details?.abort();
    details = new AbortController();
    info.replaceChildren();
    info.ariaLabel = texts.info;
    try {
      const response = await fetch(anchor.href, { signal: details.signal });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (anchor === current) info.append(...page.querySelectorAll(".panel dl"));
    } catch (error) {
      if (error.name !== "AbortError") info.textContent = texts.failed_info;
    }
  }

  function toggleDetails(isShown) {
    info.hidden = !isShown;
    find('[data-tool="info"]').ariaExpanded = String(isShown);
    fit();
    if (isShown) showDetails();
  }

  const actions = {
    previous: () => step(-1),
    next: () => step(1),
    zoom: () => zoom.toggle(),
    info: () => toggleDetails(info.hidden),
    copy: async () => (said.textContent = (await copyText(Promise.resolve(publicLink(current)))) ? texts.link_copied : ""),
    share: () => navigator.share({ title: find(".title").textContent, url: publicLink(current) }).catch(() => {}),
    close: () => dialog.close(),
  };
  dialog.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) actions[button.dataset.tool]();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || info.contains(event.target)) return;
    const page = stage.clientHeight * 0.9;
    const [x, y] =
      { ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -80], ArrowDown: [0, 80], PageUp: [0, -page], PageDown: [0, page] }[event.key] ?? [0, 0];
    if (event.key === "i") toggleDetails(info.hidden);
    else if ("+-0".includes(event.key)) zoom.by({ "+": 1.5, "-": 1 / 1.5, 0: 0 }[event.key]);
    else if (zoom.canPan(x, y)) zoom.pan(-x, -y);
    else if (x) step(Math.sign(x) * rightToLeft);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    stage.replaceChildren();
    details?.abort();
    current.focus();
    if (!idInUrl()) return;
    if (history.state?.lightbox) history.back();
    else forgetImage();
  });
  addEventListener("resize", () => dialog.open && fit());
  addEventListener("online", () => dialog.open && stage.dataset.state === "failed" && show());

  new MutationObserver(() => dialog.open && updateSteps()).observe(grid, { childList: true });

  return {
    open: (anchor) => {
      if (dialog.open && anchor === current) return;
      current = anchor;
      if (!dialog.open) dialog.showModal();
      show();
    },
    close: () => dialog.close(),
    toggleDetails,
  };
}

/** Returns what stands in for an image until it is loaded, as a CSS image: that of its tile, else its ThumbHash. */
function standIn(anchor) {
  const { complete, naturalWidth, currentSrc } = anchor.querySelector("img");
  const { hash } = anchor.dataset;
  if (complete && naturalWidth) return `url("${currentSrc}")`;
  return hash ? `url("${placeholderUrl(hash)}")` : "none";
}

/** Returns the URLs of an image by those of its tile: `src` and `srcset` for the window, and `full` for the file. */
function urls(anchor) {
  const image = anchor.querySelector("img");
  const source = sourcesOf(image);
  const { animation } = image.dataset;
  const base = source.src.split("?")[0];
  const parameters = new URL(source.src).searchParams;
  const share = parameters.has("share") ? `?share=${parameters.get("share")}` : "";
  // A signed URL is that of one size only.
  const full = parameters.has("sig") ? source.src : (animation ? base.replace(/\.\w+$/, "") : base) + share;
  if (animation && !isMotionReduced.matches) return { src: animation, srcset: "", full: animation };
  const [width, height] = sizeOf(anchor);
  // The tile of a tall or wide image shows a part of it, of a height `h`.
  const smallest = source.srcset.split(" ")[0].replace(/&h=\d+/, "");
  const smaller = WIDTHS.filter((each) => each < width && (each * each * height) / width <= MAX_PIXELS);
  const widths = width <= WIDTHS.at(-1) ? [...smaller, width] : smaller;
  const candidates = widths.map((each) => `${smallest.replace(/([?&]w=)\d+/, `$1${each}`)} ${each}w`);
  return { src: source.src, srcset: smallest && candidates.join(", "), full };
}

/** Returns the width and height of the image of a tile, in its pixels. */
function sizeOf(anchor) {
  const source = anchor.querySelector("img");
  return [Number(source.getAttribute("width")), Number(source.getAttribute("height"))];
}

/** Returns the URL of an image's public page; a private one has only that of its owner. */
function publicLink(anchor) {
  const isPrivate = anchor.closest("[data-private]") !== null;
  return isPrivate ? anchor.href : anchor.href.replace(/\/images\/(\w+)$/, "/i/$1");
}
