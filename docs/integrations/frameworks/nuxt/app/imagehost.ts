import { defineProvider } from "@nuxt/image/runtime";

const IMAGE = /\/[0-9A-Za-z]{16}(\.\w+)?$/;

/** The provider of imagehost: URLs at a size; other URLs, also signed ones, stay as they are. */
export default defineProvider({
  getImage(src, { modifiers: { width, height, fit, format = "auto", quality } }) {
    if (!IMAGE.test(src)) return { url: src };
    const values = { w: width, h: height, fit, fm: format, q: quality };
    const given = Object.entries(values).filter(([, value]) => value);
    return { url: `${src}?${new URLSearchParams(given as [string, string][])}` };
  },
});
