// --8<-- [start:common]
const endpoint = "https://images.example.com/v1/upload";
const headers = { Authorization: "Bearer ihk_TOKEN" };

function show(url) {
  const element = document.createElement("img");
  element.src = url;
  document.querySelector("#images").append(element);
}
// --8<-- [end:common]

// --8<-- [start:dropzone]
import Dropzone from "dropzone";

const dropzone = new Dropzone("#uploader", {
  url: endpoint,
  headers,
  paramName: "image",
  acceptedFiles: "image/*",
});
dropzone.on("success", (file, response) => show(response.data.url));
// --8<-- [end:dropzone]

// --8<-- [start:fine-uploader]
import qq from "fine-uploader/lib/core";

new qq.FineUploaderBasic({
  button: document.querySelector("#uploader"),
  cors: { expected: true },
  request: { endpoint, customHeaders: headers, inputName: "image" },
  callbacks: { onComplete: (id, name, response) => response.success && show(response.data.url) },
});
// --8<-- [end:fine-uploader]

// --8<-- [start:plupload]
import plupload from "plupload";

const uploader = new plupload.Uploader({
  browse_button: document.querySelector("#uploader"),
  url: endpoint,
  headers,
  file_data_name: "image",
  init: {
    FilesAdded: (up) => up.start(),
    FileUploaded: (up, file, result) => show(JSON.parse(result.response).data.url),
  },
});
uploader.init();
// --8<-- [end:plupload]

// --8<-- [start:blueimp-file-upload]
import jQuery from "jquery";
import "blueimp-file-upload";

jQuery("<input type='file' multiple>").appendTo("#uploader").fileupload({
  url: endpoint,
  headers,
  paramName: "image",
  dataType: "json",
  done: (event, { result }) => show(result.data.url),
});
// --8<-- [end:blueimp-file-upload]

// --8<-- [start:antd]
import { Upload } from "antd";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

const upload = createElement(Upload, {
  action: endpoint,
  headers,
  name: "image",
  multiple: true,
  onChange: ({ file }) => file.status === "done" && show(file.response.data.url),
});
createRoot(document.querySelector("#uploader")).render(upload);
// --8<-- [end:antd]

// --8<-- [start:element-plus]
import { ElUpload } from "element-plus";
import { createApp, h } from "vue";

createApp({
  render: () =>
    h(ElUpload, {
      action: endpoint,
      headers,
      name: "image",
      multiple: true,
      onSuccess: (response) => show(response.data.url),
    }, () => "Upload"),
}).mount("#uploader");
// --8<-- [end:element-plus]
