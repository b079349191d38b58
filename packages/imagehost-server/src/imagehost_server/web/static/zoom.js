// Zoom and pan of an image in a box: by wheel, pinch, click and drag; swipes in directions that it does not fill.
//
// A tall image first fills the width of the box, a wide one the height, and the wheel scrolls it.

const SWIPE = 50; // CSS pixels
const CLICK = 8;
const EXTREME_RATIO = 3; // as in presentation.py

/**
 * @param {HTMLElement} stage The box, in whose middle the image is.
 * @param {object} handlers `onSwipe(x, y)` with the direction, `onTapOutside()` and `onZoom()`.
 */
export function zoomable(stage, { onSwipe, onTapOutside, onZoom }) {
  const pointers = new Map();
  let image, width, height, full; // the size that fits the box, and the scale of one pixel to one CSS pixel
  let rest = 1; // the scale at first, more than 1 for a tall or wide image
  let scale = 1;
  let x = 0;
  let y = 0;
  let start, moved, pinch;

  // How far the image can be moved from the middle; a fraction of a pixel is none.
  const room = (size, box) => Math.max(0, Math.round(size * scale - box) / 2);
  const roomX = () => room(width, stage.clientWidth);
  const roomY = () => room(height, stage.clientHeight);
  const limit = (value, most) => Math.min(most, Math.max(-most, value));

  function apply() {
    x = limit(x, roomX());
    y = limit(y, roomY());
    image.style.transform = scale === 1 ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
    stage.classList.toggle("zoomed", scale > 1);
  }

  /** Scales around a point relative to the middle of the box. */
  function zoomTo(target, px = 0, py = 0) {
    const next = Math.min(Math.max(full, 2) * 2, Math.max(1, target));
    x = px - ((px - x) * next) / scale;
    y = py - ((py - y) * next) / scale;
    if (next > rest && scale <= rest) onZoom();
    scale = next;
    apply();
  }

  const fromMiddle = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
  };
  const toggle = (px, py) => zoomTo(scale > rest ? rest : full > 1.1 * rest ? full : 2 * rest, px, py);

  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    // A pinch on a touchpad is a wheel with Ctrl.
    if (rest > 1 && !event.ctrlKey) return roomX() > roomY() ? pan(-event.deltaX - event.deltaY, 0) : pan(-event.deltaX, -event.deltaY);
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
    else if (Math.abs(dx) > Math.abs(dy)) Math.abs(dx) > SWIPE && roomX() === 0 && onSwipe(Math.sign(dx), 0);
    else if (Math.abs(dy) > SWIPE && roomY() === 0) onSwipe(0, Math.sign(dy));
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

  /** Returns the scales of a pixel of the file at which the whole image is seen, and at which it is shown first. */
  function fits(imageWidth, imageHeight) {
    const [across, down] = [Math.min(1, stage.clientWidth / imageWidth), Math.min(1, stage.clientHeight / imageHeight)];
    const [whole, ratio] = [Math.min(across, down), imageWidth / imageHeight];
    return { whole, first: ratio > EXTREME_RATIO ? down : ratio < 1 / EXTREME_RATIO ? across : whole };
  }

  return {
    /** Returns the width that an image of a size in pixels has at first. */
    fittingWidth: (imageWidth, imageHeight) => Math.ceil(imageWidth * fits(imageWidth, imageHeight).first),
    /** Fits an image, whose file has a size in pixels, into the box; returns its width there. */
    reset: (shown, imageWidth, imageHeight) => {
      const { whole, first } = fits(imageWidth, imageHeight);
      image = shown;
      [width, height, full, rest] = [imageWidth * whole, imageHeight * whole, 1 / whole, first / whole];
      image.style.width = `${width}px`;
      image.style.height = `${height}px`;
      // From its beginning.
      [scale, x, y] = [rest, Infinity, Infinity];
      apply();
      return Math.ceil(width * scale);
    },
    canPan: (dx, dy) => (dx !== 0 && roomX() > 0) || (dy !== 0 && roomY() > 0),
    toggle,
    pan,
    by: (factor) => zoomTo(scale * factor),
  };
}
