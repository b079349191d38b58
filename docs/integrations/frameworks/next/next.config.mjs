export default {
  output: "export",
  images: { loader: "custom", loaderFile: "./imagehost-loader.js" },
};
