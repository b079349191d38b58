import { thumbHashToDataURL } from "thumbhash";

const WIDTHS = [320, 640, 960, 1280];
const quote = (text) => String(text).replace(/[&"<]/g, (character) => `&#${character.charCodeAt(0)};`);

/** Return an `<img>` of a record of imagehost, with its ThumbHash as background until it is loaded. */
export function img({ url, width, height, description, placeholder }, sizes = "100vw") {
  const at = (w) => `${url}?w=${w}&fm=auto`;
  const widths = [...WIDTHS.filter((w) => w < width), width];
  const srcset = widths.map((w) => `${at(w)} ${w}w`).join(", ");
  const background = thumbHashToDataURL(Buffer.from(placeholder, "base64"));
  const style = `background: url(${background}) center / cover`;
  const attributes = { src: at(width), srcset, sizes, width, height, alt: description, loading: "lazy", style };
  const pairs = Object.entries(attributes).map(([name, value]) => `${name}="${quote(value)}"`);
  return `<img ${pairs.join(" ")}>`;
}

/** The plug-in: the shortcode `imagehost`. */
export default (config) => config.addShortcode("imagehost", img);
