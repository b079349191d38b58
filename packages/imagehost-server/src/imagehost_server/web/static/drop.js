// Dropping files on any page: the form of the page /upload opens in a dialog, and uploads them.

import { filesOf, hasFiles } from "./files.js";
import { waitForNetwork } from "./patience.js";
import { describeSession, readSession, waitForSession } from "./session.js";

const uploadPage = `${document.body.dataset.root}/upload`;
let addFiles;

/** Waits until there are a session and a network, and says so meanwhile; the files that were dropped are kept. */
async function waitUntilReady() {
  let notice;
  for (;;) {
    const state = await readSession();
    if (state === "valid") return notice?.remove();
    notice ??= document.body.appendChild(Object.assign(document.createElement("p"), { className: "message session notice", role: "alert" }));
    notice.replaceChildren(describeSession(state));
    await Promise.race([waitForSession(), waitForNetwork()]);
  }
}

async function openUploader() {
  await waitUntilReady();
  // The page of an album links to the page for uploading into that album.
  const response = await fetch(document.querySelector(`main a[href^="${uploadPage}?"]`) ?? uploadPage);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const root = page.getElementById("uploader");
  if (!root) throw new Error("expected the page for uploading");
  document.adoptNode(root);
  // The page may have elements of the same ids.
  for (const name of ["id", "for", "aria-describedby"]) {
    for (const element of root.querySelectorAll(`[${name}]`)) {
      element.setAttribute(name, `upload-${element.getAttribute(name)}`);
    }
  }
  const dialog = document.createElement("dialog");
  const close = document.createElement("button");
  dialog.className = "upload-dialog";
  close.textContent = "×";
  close.ariaLabel = document.body.dataset.close;
  close.className = "plain close";
  close.onclick = () => dialog.close();
  dialog.append(close, root);
  document.body.append(dialog);
  const { mountUploader } = await import("./uploader.js");
  const add = mountUploader(root);
  return (found) => {
    if (!dialog.open) dialog.showModal();
    add(found);
  };
}

// The pointer leaves an element as it enters another.
let entered = 0;

function track(change) {
  entered = change === 0 ? 0 : Math.max(0, entered + change);
  document.documentElement.classList.toggle("dragging", entered > 0);
}

document.addEventListener("dragenter", (event) => hasFiles(event.dataTransfer) && track(1));
document.addEventListener("dragleave", (event) => hasFiles(event.dataTransfer) && track(-1));
document.addEventListener("dragover", (event) => {
  if (hasFiles(event.dataTransfer)) event.preventDefault();
});

const isUploadPage = document.getElementById("uploader") !== null;
document.addEventListener("drop", async (event) => {
  track(0);
  if (!hasFiles(event.dataTransfer)) return;
  event.preventDefault();
  const dropped = filesOf(event.dataTransfer);
  addFiles ??= isUploadPage ? import("./upload.js").then((page) => page.add) : openUploader();
  try {
    const [add, found] = await Promise.all([addFiles, dropped]);
    add(found);
  } catch {
    // The page says why.
    location.assign(uploadPage);
  }
});
