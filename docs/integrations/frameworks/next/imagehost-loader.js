"use client";

const IMAGE = /\/[0-9A-Za-z]{16}(\.\w+)?$/;

/** Return the URL of an image of imagehost at a width; other URLs, also signed ones, stay as they are. */
export default function imagehostLoader({ src, width, quality }) {
  if (!IMAGE.test(src)) return src;
  return `${src}?w=${width}&fm=auto${quality ? `&q=${quality}` : ""}`;
}
