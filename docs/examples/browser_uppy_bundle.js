import Uppy from "@uppy/core";
import Dashboard from "@uppy/dashboard";
import XHRUpload from "@uppy/xhr-upload";
import "@uppy/core/css/style.min.css";
import "@uppy/dashboard/css/style.min.css";

const baseUrl = "https://images.example.com/v1";
const token = "ihk_TOKEN";

const uppy = new Uppy({
  restrictions: { allowedFileTypes: ["image/*"], maxFileSize: 52_428_800, maxNumberOfFiles: 20 },
});
uppy.use(Dashboard, { target: "#uploader", inline: true });
uppy.use(XHRUpload, {
  endpoint: `${baseUrl}/upload`,
  bundle: true, // all files in one request, as `files[]`
  headers: { Authorization: `Bearer ${token}` },
  getResponseData: (xhr) => JSON.parse(xhr.responseText).data,
  shouldRetry: (xhr) => xhr.status >= 500,
  onAfterResponse: (xhr) => {
    if (xhr.status >= 400) throw new Error(JSON.parse(xhr.responseText).error.details);
  },
});

uppy.on("complete", ({ successful }) => {
  // The response is the same for every file of the request.
  const { images, errors } = successful[0]?.response.body ?? { images: [], errors: [] };
  for (const image of images) {
    const element = new Image(image.width, image.height);
    element.src = image.url;
    document.querySelector("#images").append(element);
  }
  for (const error of errors) {
    uppy.info(`${error.filename}: ${error.details}`, "error", 10_000);
  }
});

uppy.on("upload-error", (file, error) => {
  uppy.info(`${file.name}: ${error.message}`, "error", 10_000);
});
