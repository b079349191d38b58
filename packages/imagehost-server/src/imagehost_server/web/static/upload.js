// The page /upload; `add` adds files to it.

import { mountUploader } from "./uploader.js";

export const add = mountUploader(document.getElementById("uploader"));
