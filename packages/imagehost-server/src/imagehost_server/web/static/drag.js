// Selecting images by dragging the mouse over them: all from the first to the one under the pointer.

const DISTANCE = 10; // CSS pixels from which a press is a drag

/**
 * @param {HTMLElement} grid A list whose items have `data-id`.
 * @param {object} selection `between(first, second)` returns items; `isSelected(item)`; `mark(item, isSelected)`.
 */
export function selectByDragging(grid, { between, isSelected, mark }) {
  let start = null;

  // Dragging an image or its link out of the page would end it.
  grid.addEventListener("dragstart", (event) => event.preventDefault());
  grid.addEventListener("pointerdown", (event) => {
    const item = event.target.closest("[data-id]");
    if (!item || event.pointerType !== "mouse" || event.button !== 0) return;
    start = { item, x: event.clientX, y: event.clientY, value: !isSelected(item), before: null, isDrag: false };
  });
  addEventListener("pointermove", (event) => {
    if (!start) return;
    start.isDrag ||= Math.hypot(event.clientX - start.x, event.clientY - start.y) > DISTANCE;
    const item = document.elementFromPoint(event.clientX, event.clientY)?.closest("#grid [data-id]");
    if (!start.isDrag || !item) return;
    // The items that the drag has left have the state from before it.
    start.before ??= new Map();
    const range = new Set(between(start.item, item));
    for (const [other, value] of start.before) if (!range.has(other)) mark(other, value);
    for (const member of range) {
      if (!start.before.has(member)) start.before.set(member, isSelected(member));
      mark(member, start.value);
    }
  });
  addEventListener("pointerup", () => {
    // The click after a drag opens nothing.
    if (start?.isDrag) {
      const swallow = (event) => {
        event.preventDefault();
        event.stopPropagation();
      };
      addEventListener("click", swallow, { capture: true, once: true });
      setTimeout(() => removeEventListener("click", swallow, { capture: true }));
    }
    start = null;
  });
}
