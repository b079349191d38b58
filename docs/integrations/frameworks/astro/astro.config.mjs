export default {
  image: { service: { entrypoint: "./imagehost.mjs" } },
};
