// A list of images by the keyboard: it is one tab stop (a roving tabindex), and the arrow keys, Home and End move in it.

const ITEMS = "li:not(.month, [hidden]), tbody tr:not([hidden])";
// Of no element: the browser would take the focus away from another one.
const FOCUS = { Home: "#focus", End: "#end" };
const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const ROWS = { ArrowUp: -1, ArrowDown: 1 };

/** Gives the focus to the list: to the image that is its tab stop. */
export function focusList() {
  (document.querySelector("#grid a[tabindex='0']") ?? document.getElementById("main")).focus({ preventScroll: true });
}

/** @param {HTMLElement} grid The list or table with the id `grid`. */
export function mountKeyboard(grid) {
  const items = () => [...grid.querySelectorAll(ITEMS)];
  const months = document.getElementById("months");
  const itemOf = (element) => element.closest("#grid li, #grid tbody tr");
  let current;

  function setCurrent(item) {
    if (current) current.querySelector("a").tabIndex = -1;
    current = item;
    current.querySelector("a").tabIndex = 0;
  }

  /** Takes new items out of the order of Tab; an image that is no longer shown leaves the tab stop to the next one. */
  function update() {
    for (const element of grid.querySelectorAll("a:not([tabindex]), input:not([tabindex])")) element.tabIndex = -1;
    if (current?.isConnected && !current.hidden) return;
    const all = items();
    const next = current?.isConnected && all.find((item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (all.length) setCurrent(next || all[0]);
  }

  /** Returns the item of the next row that is nearest to one, before or after it. */
  function inNextRow(all, index, direction) {
    const middle = ({ left, right }) => (left + right) / 2;
    const box = all[index].getBoundingClientRect();
    let nearest, row;
    for (let other = index + direction; all[other]; other += direction) {
      const { top, bottom, ...rest } = all[other].getBoundingClientRect().toJSON();
      // Small images are centred in their row.
      if (direction > 0 ? top < box.bottom : bottom > box.top) continue;
      row ??= { top, bottom };
      if (top >= row.bottom || bottom <= row.top) break;
      const distance = Math.abs(middle(rest) - middle(box));
      if (!nearest || distance < nearest.distance) nearest = { item: all[other], distance };
    }
    return nearest?.item;
  }

  /** Returns the URL of the beginning or the end of a list, if that is not loaded. */
  function urlOf(key) {
    const url = months?.dataset[{ Home: "first", End: "last" }[key]];
    return key === "End" && !document.getElementById("more") ? undefined : url;
  }

  function targetOf(key, item) {
    const all = items();
    const index = all.indexOf(item);
    if (key in STEPS) return all[index + STEPS[key]];
    if (key in ROWS) return inNextRow(all, index, ROWS[key]);
    return { Home: all[0], End: all.at(-1) }[key];
  }

  grid.addEventListener("focusin", ({ target }) => itemOf(target) && setCurrent(itemOf(target)));
  grid.addEventListener("keydown", (event) => {
    const item = itemOf(event.target);
    if (!item || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const url = urlOf(event.key);
    const target = targetOf(event.key, item);
    if (!url && !target) return;
    event.preventDefault();
    if (url) return location.assign(url + FOCUS[event.key]);
    target.querySelector("a").focus();
    target.scrollIntoView({ block: "nearest" });
  });
  const isOfList = ({ type, target }) => type === "attributes" || target === (grid.tBodies?.[0] ?? grid);
  new MutationObserver((changes) => changes.some(isOfList) && update()).observe(grid, { childList: true, subtree: true, attributeFilter: ["hidden"] });
  update();
  if (months) mountMonths(months);
  if (location.hash === FOCUS.End) setCurrent(items().at(-1) ?? current);
  if (Object.values(FOCUS).includes(location.hash)) current?.querySelector("a").focus();
}

/** Makes links one tab stop, in which the arrow keys move. */
function mountMonths(nav) {
  const links = [...nav.querySelectorAll("a")];
  const setCurrent = (link) => links.forEach((each) => (each.tabIndex = each === link ? 0 : -1));
  nav.addEventListener("keydown", (event) => {
    const step = { ...STEPS, ...ROWS }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    const target = links[links.indexOf(event.target) + step];
    if (!target) return;
    setCurrent(target);
    target.focus();
  });
  const shown = links.find((link) => link.ariaCurrent) ?? links[0];
  setCurrent(shown);
  nav.scrollLeft = shown.offsetLeft - nav.offsetLeft - nav.clientWidth / 2;
}
