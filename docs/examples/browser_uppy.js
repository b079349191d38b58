import Uppy from "@uppy/core";
import Dashboard from "@uppy/dashboard";
import XHRUpload from "@uppy/xhr-upload";
import "@uppy/core/css/style.min.css";
import "@uppy/dashboard/css/style.min.css";

const baseUrl = "https://images.example.com/v1";
const token = "ihk_TOKEN";

const uppy = new Uppy({
  restrictions: { allowedFileTypes: ["image/*"], maxFileSize: 52_428_800 },
});
uppy.use(Dashboard, { target: "#uploader", inline: true });
uppy.use(XHRUpload, {
  endpoint: `${baseUrl}/upload`,
  fieldName: "image",
  headers: () => ({
    Authorization: `Bearer ${token}`,
    // Uppy repeats a request that got no response: this prevents a second image.
    "Idempotency-Key": crypto.randomUUID(),
  }),
  getResponseData: (xhr) => JSON.parse(xhr.responseText).data,
  // Without this, Uppy also repeats requests that can only fail again.
  shouldRetry: (xhr) => xhr.status === 0 || xhr.status >= 500,
  onAfterResponse: (xhr) => {
    if (xhr.status >= 400) throw new Error(JSON.parse(xhr.responseText).error.details);
  },
});

uppy.on("upload-success", (file, response) => {
  const element = new Image();
  element.src = response.uploadURL;
  document.querySelector("#images").append(element);
});

uppy.on("upload-error", (file, error) => {
  uppy.info(`${file.name}: ${error.message}`, "error", 10_000);
});
