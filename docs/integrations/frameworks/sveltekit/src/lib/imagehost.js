import { thumbHashToDataURL } from "thumbhash";

const WIDTHS = [320, 640, 960, 1280];

/** Return the attributes of an `<img>` of a record of imagehost, with its ThumbHash as background. */
export function imagehost({ url, width, height, description, placeholder }) {
  const at = (w) => `${url}?w=${w}&fm=auto`;
  const widths = [...WIDTHS.filter((w) => w < width), width];
  const hash = Uint8Array.from(atob(placeholder), (character) => character.charCodeAt(0));
  return {
    src: at(width),
    srcset: widths.map((w) => `${at(w)} ${w}w`).join(", "),
    width,
    height,
    alt: description,
    style: `background: url(${thumbHashToDataURL(hash)}) center / cover`,
  };
}
