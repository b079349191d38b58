import { baseService } from "astro/assets";

const IMAGE = /\/[0-9A-Za-z]{16}(\.\w+)?$/;

/** The image service of imagehost: URLs at a size; other URLs, also signed ones, stay as they are. */
export default {
  validateOptions: (options) => ({ ...options, format: undefined }),
  getHTMLAttributes: baseService.getHTMLAttributes,
  getSrcSet: baseService.getSrcSet,
  getURL({ src, width, quality }) {
    if (typeof src !== "string") return src.src;
    if (!IMAGE.test(src)) return src;
    return `${src}?w=${width}&fm=auto${quality ? `&q=${quality}` : ""}`;
  },
};
