import { readFileSync } from "node:fs";
import imagehost from "./imagehost.mjs";

export default function (config) {
  config.addPlugin(imagehost);
  for (const name of ["image", "signed"]) {
    config.addGlobalData(name, () => JSON.parse(readFileSync(`${name}.json`, "utf8")));
  }
}
