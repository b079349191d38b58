/**
 * Return the `src` and the `srcset` of a private image at several widths.
 *
 * It runs where the page is made, on the server or in the build: a browser must not have the token.
 */
export async function signedSources(imageId, widths, { baseUrl, token, expiresIn = 3600 }) {
  const response = await fetch(`${baseUrl}/signed-urls`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({
      items: widths.map((w) => ({ image_id: imageId, w, fm: "auto" })),
      expires_in: expiresIn,
    }),
  });
  const { success, data, error } = await response.json();
  if (!success) throw new Error(`${error.code}: ${error.details}`);
  const urls = data.items.map((item) => item.url);
  return { src: urls.at(-1), srcset: urls.map((url, index) => `${url} ${widths[index]}w`).join(", ") };
}
