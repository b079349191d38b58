// The files of a drop or a paste, also those in folders.

/** Returns the files that are dragged or pasted; it must be called before the event's handler returns. */
export async function filesOf(transfer) {
  const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.());
  if (entries.length === 0 || entries.some((entry) => !entry)) return [...transfer.files];
  return (await Promise.all(entries.map(filesIn))).flat();
}

async function filesIn(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const files = [];
  // A reader returns at most 100 entries at a time.
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return files;
    for (const child of entries) files.push(...(await filesIn(child)));
  }
}

/** Returns whether files are dragged, and not text or a link. */
export const hasFiles = (transfer) => transfer !== null && [...transfer.types].includes("Files");
