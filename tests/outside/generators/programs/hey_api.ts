// Upload, list, sign and delete with the client that @hey-api/openapi-ts wrote.
import { client } from "./generated/client.gen.js";
import { deleteImage, getImage, listImages, signImage, uploadImages } from "./generated/index.js";
import { assert, baseUrl, file, run, statusOf, token } from "./host.js";

client.setConfig({ baseUrl, auth: token });

run(async () => {
  const one = await uploadImages({ body: { image: file("one.png"), is_public: false } });
  assert(one.data && "id" in one.data.data, "expected one image");
  const image = one.data.data;
  assert(image.original_filename === "one.png" && !image.is_public, "expected a private image");
  const several = await uploadImages({ body: { "files[]": [file("a.png"), file("b.png")] } });
  assert(several.data && "images" in several.data.data, "expected several images");
  const images = several.data.data.images;
  assert(images.map((item) => item.original_filename).join() === "a.png,b.png", "expected two images");
  console.log("uploads");

  const list = await listImages({ query: { page: 1, per_page: 100 } });
  assert(list.data, "expected a list");
  const ids = new Set(list.data.data.images.map((item) => item.id));
  assert([image, ...images].every((item) => ids.has(item.id)), "expected the images in the list");
  console.log("lists");

  const path = { image_id: image.id };
  const signed = await signImage({ path, body: { w: 20, expires_in: 60 } });
  assert(signed.data, "expected a signed URL");
  assert((await statusOf(image.url)) === 404, "expected 404 for a private image");
  assert((await statusOf(signed.data.data.url)) === 200, "expected 200 for a signed URL");
  console.log("signs");

  const deleted = await deleteImage({ path });
  assert(deleted.data?.data.id === image.id, "expected the id of the deleted image");
  const missing = await getImage({ path });
  assert(missing.error?.error.code === "NOT_FOUND", "expected NOT_FOUND");
  console.log("deletes");
});
