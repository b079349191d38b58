// Copying text, also where the clipboard API is missing: on pages without TLS that are not on loopback.

/**
 * @param {HTMLInputElement | HTMLTextAreaElement} field A field with the text.
 * @returns {Promise<boolean>} Whether it was copied; if not, the text is selected.
 */
export async function copyField(field) {
  try {
    await navigator.clipboard.writeText(field.value);
    return true;
  } catch {
    // There is no clipboard API, or the browser refuses it.
  }
  const focused = document.activeElement;
  field.select();
  const isCopied = document.execCommand("copy");
  if (isCopied) focused?.focus();
  return isCopied;
}

/**
 * Copies text that no field contains.
 *
 * @param {Promise<string>} text It may take a while: browsers refuse copying seconds after a click, but not what a
 *   click has begun.
 * @returns {Promise<boolean>} Whether it was copied.
 */
export async function copyText(text) {
  if (navigator.clipboard?.write) {
    const blob = text.then((value) => new Blob([value], { type: "text/plain" }));
    try {
      await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
      return true;
    } catch {
      await text; // an error of the text is one of the caller
    }
  }
  const field = document.createElement("textarea");
  field.value = await text;
  field.className = "visually-hidden";
  document.body.append(field);
  try {
    return await copyField(field);
  } finally {
    field.remove();
  }
}
