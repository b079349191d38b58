// Decodes a ThumbHash (https://evanw.github.io/thumbhash/) into pixels of about 32×32.

const decodeBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** Reads `count` AC factors of 4 bits from a half-byte position; returns those of a triangle of nx × ny. */
function readChannel(bytes, position, nx, ny, scale) {
  const factors = [];
  for (let y = 0; y < ny; y++) {
    for (let x = y ? 0 : 1; x * ny < nx * (ny - y); x++) {
      const half = (bytes[position.start + (position.index >> 1)] >> ((position.index & 1) << 2)) & 15;
      position.index++;
      factors.push((half / 7.5 - 1) * scale);
    }
  }
  return factors;
}

/** Returns {width, height, pixels}; pixels are RGBA. */
export function decodeThumbHash(text) {
  const bytes = decodeBase64(text);
  const header = bytes[0] | (bytes[1] << 8) | (bytes[2] << 16);
  const more = bytes[3] | (bytes[4] << 8);
  const luminance = (header & 63) / 63;
  const p = ((header >> 6) & 63) / 31.5 - 1;
  const q = ((header >> 12) & 63) / 31.5 - 1;
  const luminanceScale = ((header >> 18) & 31) / 31;
  const hasAlpha = header >> 23;
  const pScale = ((more >> 3) & 63) / 63;
  const qScale = ((more >> 9) & 63) / 63;
  const isLandscape = more >> 15;
  const longest = hasAlpha ? 5 : 7;
  const lx = Math.max(3, isLandscape ? longest : more & 7);
  const ly = Math.max(3, isLandscape ? more & 7 : longest);
  const alpha = hasAlpha ? (bytes[5] & 15) / 15 : 1;
  const alphaScale = (bytes[5] >> 4) / 15;
  const position = { start: hasAlpha ? 6 : 5, index: 0 };
  // The encoder boosts the saturation of P and Q by 1.25, which offsets their quantisation.
  const channels = [
    [luminance, readChannel(bytes, position, lx, ly, luminanceScale), lx, ly],
    [p, readChannel(bytes, position, 3, 3, pScale * 1.25), 3, 3],
    [q, readChannel(bytes, position, 3, 3, qScale * 1.25), 3, 3],
  ];
  if (hasAlpha) channels.push([alpha, readChannel(bytes, position, 5, 5, alphaScale), 5, 5]);
  const ratio = lx / ly;
  const width = Math.round(ratio > 1 ? 32 : 32 * ratio);
  const height = Math.round(ratio > 1 ? 32 / ratio : 32);
  const pixels = new Uint8ClampedArray(width * height * 4);
  const cosine = (frequency, at, size) => Math.cos((Math.PI / size) * (at + 0.5) * frequency);
  for (let y = 0, offset = 0; y < height; y++) {
    for (let x = 0; x < width; x++, offset += 4) {
      const [l, vp, vq, a = 1] = channels.map(([mean, factors, nx, ny]) => {
        let value = mean;
        for (let v = 0, index = 0; v < ny; v++) {
          for (let u = v ? 0 : 1; u * ny < nx * (ny - v); u++, index++) {
            value += factors[index] * cosine(u, x, width) * cosine(v, y, height) * 2;
          }
        }
        return value;
      });
      const blue = l - (2 / 3) * vp;
      const red = (3 * l - blue + vq) / 2;
      const green = red - vq;
      pixels.set([red * 255, green * 255, blue * 255, a * 255], offset);
    }
  }
  return { width, height, pixels };
}

/** Returns the URL of the image of a ThumbHash. */
export function placeholderUrl(hash) {
  const canvas = document.createElement("canvas");
  const { width, height, pixels } = decodeThumbHash(hash);
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas.toDataURL();
}

/** Shows the placeholders of images that have not loaded yet: elements with `data-hash` around an image. */
export function showPlaceholders(root) {
  for (const element of root.querySelectorAll("[data-hash]:not([data-placed])")) {
    const image = element.querySelector("img");
    element.dataset.placed = "";
    if (!element.dataset.hash || !image || image.complete) continue;
    element.style.backgroundImage = `url(${placeholderUrl(element.dataset.hash)})`;
    // Scrolling may replace the image before it has loaded.
    element.addEventListener("load", () => (element.style.backgroundImage = ""), { capture: true, once: true });
  }
}
