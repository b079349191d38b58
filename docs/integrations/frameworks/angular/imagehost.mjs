import { IMAGE_LOADER } from "@angular/common";

const IMAGE = /\/[0-9A-Za-z]{16}(\.\w+)?$/;

/** Return the URL of an image of imagehost at a width; other URLs, also signed ones, stay as they are. */
export function imagehostLoader({ src, width, loaderParams }) {
  if (!IMAGE.test(src)) return src;
  const quality = loaderParams?.quality;
  return `${src}?${width ? `w=${width}&` : ""}fm=auto${quality ? `&q=${quality}` : ""}`;
}

/** Provide the loader to `NgOptimizedImage`. */
export const provideImagehost = () => ({ provide: IMAGE_LOADER, useValue: imagehostLoader });
