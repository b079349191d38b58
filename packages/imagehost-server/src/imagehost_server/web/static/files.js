// The files of a drop, a paste or a folder.

// What file systems and cameras keep beside images.
const HIDDEN = /^(\..*|thumbs\.db|ehthumbs\.db|desktop\.ini|icon\r|@eadir|__macosx|\$recycle\.bin|system volume information)$/i;

/**
 * Returns the files that are dragged or pasted, also those in folders, and how many of a folder were left out because
 * they are hidden or of the system; it must be called before the event's handler returns.
 */
export async function filesOf(transfer) {
  const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.());
  if (entries.length === 0 || entries.some((entry) => !entry)) return { files: [...transfer.files], skipped: 0 };
  const found = { files: [], skipped: 0 };
  for (const entry of entries) await collect(entry, found);
  return found;
}

async function collect(entry, found) {
  if (entry.isFile) {
    found.files.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    return;
  }
  const reader = entry.createReader();
  // A reader returns at most 100 entries at a time.
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return;
    for (const child of entries) {
      if (!HIDDEN.test(child.name)) await collect(child, found);
      else if (child.isFile) found.skipped++;
    }
  }
}

/** Returns the same of the files of an input that chooses a folder. */
export function filesOfFolder(all) {
  const files = [...all].filter((file) => !file.webkitRelativePath.split("/").slice(1).some((name) => HIDDEN.test(name)));
  return { files, skipped: all.length - files.length };
}

/** Returns whether files are dragged, and not text or a link. */
export const hasFiles = (transfer) => transfer !== null && [...transfer.types].includes("Files");
