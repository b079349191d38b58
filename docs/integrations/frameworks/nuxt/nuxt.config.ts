export default defineNuxtConfig({
  modules: ["@nuxt/image"],
  image: {
    provider: "imagehost",
    providers: { imagehost: { provider: "~/imagehost.ts" } },
  },
});
