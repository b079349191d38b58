// The lightbox: one image of a grid over the whole window, with arrow keys for the others.

const isMotionReduced = matchMedia("(prefers-reduced-motion: reduce)");
let dialog;

function build(texts) {
  dialog = document.createElement("dialog");
  dialog.className = "lightbox";
  dialog.innerHTML =
    '<img alt=""><div class="controls"><button type="button" data-step="-1"></button>' +
    '<a class="button"></a><button type="button" data-step="1"></button><button type="button" data-close></button></div>';
  const [previous, next, close] = dialog.querySelectorAll("button");
  previous.textContent = "‹";
  previous.ariaLabel = texts.previous;
  next.textContent = "›";
  next.ariaLabel = texts.next;
  close.textContent = texts.close;
  dialog.querySelector("a").textContent = texts.open;
  document.body.append(dialog);
}

/** Shows the image of a link in a grid. */
export function openLightbox(grid, anchor, texts) {
  if (!dialog) build(texts);
  let current = anchor;

  const show = () => {
    const source = current.querySelector("img");
    const image = dialog.querySelector("img");
    const animation = isMotionReduced.matches ? undefined : source.dataset.animation;
    image.srcset = animation ? "" : source.srcset;
    image.sizes = "100vw";
    image.src = animation ?? source.src;
    image.alt = source.alt;
    image.setAttribute("width", source.getAttribute("width"));
    image.setAttribute("height", source.getAttribute("height"));
    dialog.ariaLabel = source.alt;
    dialog.querySelector("a").href = current.href;
    dialog.querySelector('[data-step="-1"]').disabled = !current.closest("li").previousElementSibling;
    dialog.querySelector('[data-step="1"]').disabled = !current.closest("li").nextElementSibling;
    // A disabled button loses the focus, and with it the arrow keys.
    if (dialog.open && !dialog.querySelector(":focus:enabled, a:focus")) dialog.querySelector("[data-close]").focus();
  };
  const step = (direction) => {
    const item = current.closest("li");
    const target = direction < 0 ? item.previousElementSibling : item.nextElementSibling;
    if (!target) return;
    current = target.querySelector("a");
    current.scrollIntoView({ block: "nearest" });
    show();
  };
  const rightToLeft = getComputedStyle(document.documentElement).direction === "rtl" ? -1 : 1;
  dialog.onkeydown = (event) => {
    if (event.key === "ArrowLeft") step(-rightToLeft);
    else if (event.key === "ArrowRight") step(rightToLeft);
  };
  dialog.onclick = (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.step) step(Number(button.dataset.step));
    else if (button || event.target === dialog) dialog.close();
  };
  dialog.onclose = () => {
    dialog.querySelector("img").removeAttribute("srcset");
    current.focus();
  };
  show();
  dialog.showModal();
}
