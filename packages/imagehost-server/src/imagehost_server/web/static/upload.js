// The page /upload.

import { mountUploader } from "./uploader.js";

mountUploader(document.getElementById("uploader"));
