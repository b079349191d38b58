// Upload, list, sign and delete with openapi-fetch and the types that openapi-typescript wrote.
import createClient from "openapi-fetch";
import type { paths } from "./generated/schema.js";
import { assert, baseUrl, file, run, statusOf, token } from "./host.js";

const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

/** Returns a form with its text fields and files; the type of a file in the document is `string`. */
function form(body: object): FormData {
  const result = new FormData();
  for (const [name, value] of Object.entries(body)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      result.append(name, item instanceof File ? item : String(item));
    }
  }
  return result;
}

const asText = (value: File) => value as unknown as string;

run(async () => {
  const one = await client.POST("/upload", {
    body: { image: asText(file("one.png")), is_public: false },
    bodySerializer: form,
  });
  assert(one.data && "id" in one.data.data, "expected one image");
  const image = one.data.data;
  assert(image.original_filename === "one.png" && !image.is_public, "expected a private image");
  const several = await client.POST("/upload", {
    body: { "files[]": [asText(file("a.png")), asText(file("b.png"))] },
    bodySerializer: form,
  });
  assert(several.data && "images" in several.data.data, "expected several images");
  const images = several.data.data.images;
  assert(images.map((item) => item.original_filename).join() === "a.png,b.png", "expected two images");
  console.log("uploads");

  const list = await client.GET("/images", { params: { query: { page: 1, per_page: 100 } } });
  assert(list.data, "expected a list");
  const ids = new Set(list.data.data.images.map((item) => item.id));
  assert([image, ...images].every((item) => ids.has(item.id)), "expected the images in the list");
  console.log("lists");

  const path = { image_id: image.id };
  const signed = await client.POST("/images/{image_id}/signed-url", {
    params: { path },
    body: { w: 20, expires_in: 60 },
  });
  assert(signed.data, "expected a signed URL");
  assert((await statusOf(image.url)) === 404, "expected 404 for a private image");
  assert((await statusOf(signed.data.data.url)) === 200, "expected 200 for a signed URL");
  console.log("signs");

  const deleted = await client.DELETE("/images/{image_id}", { params: { path } });
  assert(deleted.data?.data.id === image.id, "expected the id of the deleted image");
  const missing = await client.GET("/images/{image_id}", { params: { path } });
  assert(missing.error?.error.code === "NOT_FOUND", "expected NOT_FOUND");
  console.log("deletes");
});
