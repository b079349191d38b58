import { readFileSync, writeFileSync } from "node:fs";
import { Image } from "@unpic/react/base";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { thumbHashToDataURL } from "thumbhash";
import { transform } from "./imagehost.mjs";

const read = (name) => JSON.parse(readFileSync(name, "utf8"));
const { url, width, height, description, placeholder } = read("image.json");
const background = thumbHashToDataURL(Buffer.from(placeholder, "base64"));
const page = [
  createElement(Image, { src: url, width, height, alt: description, background, transformer: transform }),
  createElement("img", { src: read("signed.json").url, width: 400, height: 600, alt: "Private" }),
];
writeFileSync("index.html", page.map(renderToStaticMarkup).join("\n"));
