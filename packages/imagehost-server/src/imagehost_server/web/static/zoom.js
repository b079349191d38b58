// Zoom and pan of an image in a box: by wheel, pinch, click and drag; swipes where it is not zoomed.

const SWIPE = 50; // CSS pixels
const CLICK = 8;

/**
 * @param {HTMLElement} stage The box, in whose middle the image is.
 * @param {object} handlers `onSwipe(x, y)` with the direction, `onTapOutside()` and `onZoom()`.
 */
export function zoomable(stage, { onSwipe, onTapOutside, onZoom }) {
  const pointers = new Map();
  let image, width, height, full; // the size that fits the box, and the scale of one pixel to one CSS pixel
  let scale = 1;
  let x = 0;
  let y = 0;
  let start, moved, pinch;

  const limit = (value, size, box) => {
    const rest = Math.max(0, (size * scale - box) / 2);
    return Math.min(rest, Math.max(-rest, value));
  };

  function apply() {
    x = limit(x, width, stage.clientWidth);
    y = limit(y, height, stage.clientHeight);
    image.style.transform = scale === 1 ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
    stage.classList.toggle("zoomed", scale > 1);
  }

  /** Scales around a point relative to the middle of the box. */
  function zoomTo(target, px = 0, py = 0) {
    const next = Math.min(Math.max(full, 2) * 2, Math.max(1, target));
    x = px - ((px - x) * next) / scale;
    y = py - ((py - y) * next) / scale;
    if (next > 1 && scale === 1) onZoom();
    scale = next;
    apply();
  }

  const fromMiddle = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
  };
  const toggle = (px, py) => zoomTo(scale > 1 ? 1 : full > 1.1 ? full : 2, px, py);

  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomTo(scale * 1.002 ** -event.deltaY, ...fromMiddle(event));
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    stage.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    if (pointers.size === 1) {
      start = event;
      moved = false;
    }
    pinch = pointers.size === 2 ? { distance: distance(), scale } : null;
  });
  const distance = () => {
    const [a, b] = [...pointers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  stage.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    pointers.set(event.pointerId, event);
    moved ||= Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) > CLICK;
    if (pinch) zoomTo((pinch.scale * distance()) / pinch.distance, ...fromMiddle(event));
    else if (scale > 1 && moved) pan(event.clientX - before.clientX, event.clientY - before.clientY);
  });
  const end = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (pinch) {
      moved = true;
      if (pointers.size === 0) pinch = start = null;
      return;
    }
    const [dx, dy] = [event.clientX - start.clientX, event.clientY - start.clientY];
    if (event.type === "pointercancel") return;
    if (!moved && isOnImage(event)) toggle(...fromMiddle(event));
    else if (!moved) onTapOutside();
    else if (scale === 1 && Math.abs(dx) > SWIPE && Math.abs(dx) > Math.abs(dy)) onSwipe(Math.sign(dx), 0);
    else if (scale === 1 && Math.abs(dy) > SWIPE) onSwipe(0, Math.sign(dy));
  };
  stage.addEventListener("pointerup", end);
  stage.addEventListener("pointercancel", end);
  const isOnImage = ({ clientX, clientY }) => {
    const box = image.getBoundingClientRect();
    return clientX >= box.left && clientX <= box.right && clientY >= box.top && clientY <= box.bottom;
  };

  function pan(dx, dy) {
    x += dx;
    y += dy;
    apply();
  }

  return {
    /** Fits an image, whose file has a size in pixels, into the box; returns its width there. */
    reset: (shown, imageWidth, imageHeight) => {
      image = shown;
      const fit = Math.min(1, stage.clientWidth / imageWidth, stage.clientHeight / imageHeight);
      [width, height, full] = [imageWidth * fit, imageHeight * fit, 1 / fit];
      image.style.width = `${width}px`;
      image.style.height = `${height}px`;
      [scale, x, y] = [1, 0, 0];
      apply();
      return Math.ceil(width);
    },
    isZoomed: () => scale > 1,
    toggle,
    pan,
    by: (factor) => zoomTo(scale * factor),
  };
}
