// Previous and next on the page of an image: those of the list that it was opened from, in this tab.

const STORAGE_KEY = "imagehost-list";

/** Keeps the links of a list for the pages of its images. */
export function rememberList(container) {
  addEventListener("pagehide", () => {
    const paths = [...container.querySelectorAll("li a, tr td:first-child a")].map((link) => link.getAttribute("href"));
    try {
      sessionStorage.setItem(STORAGE_KEY, JSON.stringify(paths));
    } catch {
      // The browser stores nothing.
    }
  });
}

/** Adds links to the images before and after this one, which the arrow keys follow too. */
export function showNeighbours(texts) {
  let paths = [];
  try {
    paths = JSON.parse(sessionStorage.getItem(STORAGE_KEY)) ?? [];
  } catch {
    // Another version, or no storage.
  }
  const index = paths.indexOf(location.pathname);
  if (index < 0) return;
  const steps = document.createElement("p");
  steps.className = "steps";
  for (const [name, path] of [["previous", paths[index - 1]], ["next", paths[index + 1]]]) {
    if (!path) continue;
    const link = document.createElement("a");
    link.className = "button plain";
    link.href = path;
    link.rel = name === "next" ? "next" : "prev";
    link.textContent = name === "next" ? texts.next : texts.previous;
    steps.append(link);
  }
  document.querySelector(".about").append(steps);
  const isForward = { ArrowRight: true, ArrowLeft: false };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, dialog");
    if (isTyping || event.altKey || event.ctrlKey || event.metaKey || !(event.key in isForward)) return;
    steps.querySelector(`[rel=${isForward[event.key] ? "next" : "prev"}]`)?.click();
  });
}
