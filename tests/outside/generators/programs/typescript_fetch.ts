// Upload, list, sign and delete with the client that openapi-generator's `typescript-fetch` wrote.
import { Configuration, ImagesApi, ResponseError, UploadApi } from "./generated/index.js";
import { assert, baseUrl, file, run, statusOf, token } from "./host.js";

const configuration = new Configuration({ basePath: baseUrl, accessToken: token });
const images = new ImagesApi(configuration);
const uploads = new UploadApi(configuration);

run(async () => {
  const { data: image } = await uploads.uploadImages({ image: file("one.png"), isPublic: false });
  assert("id" in image, "expected one image");
  assert(image.originalFilename === "one.png" && !image.isPublic, "expected a private image");
  const { data: several } = await uploads.uploadImages({ files: [file("a.png"), file("b.png")] });
  assert("images" in several, "expected several images");
  const names = several.images.map((item) => item.originalFilename);
  assert(names.join() === "a.png,b.png", "expected two images");
  console.log("uploads");

  const list = await images.listImages({ page: 1, perPage: 100 });
  const ids = new Set(list.data.images.map((item) => item.id));
  assert([image, ...several.images].every((item) => ids.has(item.id)), "expected the images in the list");
  console.log("lists");

  const imageId = image.id;
  const signed = await images.signImage({ imageId, signedUrlRequest: { w: 20, expiresIn: 60 } });
  assert((await statusOf(image.url)) === 404, "expected 404 for a private image");
  assert((await statusOf(signed.data.url)) === 200, "expected 200 for a signed URL");
  console.log("signs");

  const deleted = await images.deleteImage({ imageId });
  assert(deleted.data.id === imageId, "expected the id of the deleted image");
  const status = await images.getImage({ imageId }).then(
    () => 200,
    (error: unknown) => (error instanceof ResponseError ? error.response.status : 0),
  );
  assert(status === 404, "expected 404 for a deleted image");
  console.log("deletes");
});
