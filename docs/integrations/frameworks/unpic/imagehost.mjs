const IMAGE = /\/[0-9A-Za-z]{16}(\.\w+)?$/;

/** The transformer of imagehost: the URL of an image at a size; other URLs, also signed ones, stay as they are. */
export function transform(src, { width, height, format = "auto", quality }) {
  if (!IMAGE.test(src)) return String(src);
  const values = { w: width, h: height, fm: format, q: quality };
  const given = Object.entries(values).filter(([, value]) => value);
  return `${src}?${new URLSearchParams(given)}`;
}
