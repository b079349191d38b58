// The size builder: a variant from the fields of a form, with its preview, its bytes and its code.

import { describeFailure } from "./failures.js";

const section = document.getElementById("builder");
const form = section.querySelector("form");
const preview = document.getElementById("builder-preview");
const facts = document.getElementById("builder-facts");
const texts = JSON.parse(document.getElementById("texts").textContent);
const { url: master, alt } = section.dataset;
const base = master.replace(/\.\w+$/, "");
let controller;

const escape = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
const say = (key, values) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);

function variant(format) {
  const { w, h, fit, q } = Object.fromEntries(new FormData(form));
  const query = new URLSearchParams();
  if (w) query.set("w", w);
  if (h) query.set("h", h);
  if (q) query.set("q", q);
  if (fit !== "cover") query.set("fit", fit);
  query.set("fm", format);
  return `${base}?${query}`;
}

/** Returns the code for a page, with the size that the preview has. */
function picture({ width, height }) {
  const sources = ["avif", "webp"].map(
    (format) => `<source type="image/${format}" srcset="${escape(variant(format))}">`,
  );
  const image = `<img src="${escape(variant("jpeg"))}" width="${width}" height="${height}" alt="${escape(alt)}" loading="lazy">`;
  return `<picture>${sources.join("")}${image}</picture>`;
}

async function show() {
  controller?.abort();
  controller = new AbortController();
  const url = variant(form.elements.fm.value);
  const [urlField, pictureField] = ["builder-url", "builder-picture"].map((id) => document.getElementById(id));
  urlField.value = pictureField.value = "";
  const invalid = form.querySelector(":invalid");
  if (invalid) {
    facts.textContent = invalid.validationMessage;
    return;
  }
  facts.textContent = texts.rendering;
  try {
    // As an element asks, for which `auto` decides; fetch asks for any type.
    const headers = { Accept: "image/avif,image/webp,image/*,*/*;q=0.8" };
    const response = await fetch(url, { signal: controller.signal, headers });
    if (!response.ok) {
      facts.textContent = describeFailure((await response.json()).error);
      return;
    }
    const blob = await response.blob();
    const bitmap = await createImageBitmap(blob);
    facts.textContent = say("facts", { width: bitmap.width, height: bitmap.height, bytes: blob.size.toLocaleString(document.documentElement.lang), type: blob.type });
    URL.revokeObjectURL(preview.src);
    preview.src = URL.createObjectURL(blob);
    preview.width = bitmap.width;
    preview.height = bitmap.height;
    urlField.value = url;
    pictureField.value = picture(bitmap);
    bitmap.close();
  } catch (error) {
    if (error.name !== "AbortError") facts.textContent = texts.connection;
  }
}

let timer;
form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(show, 300);
});
form.addEventListener("submit", (event) => event.preventDefault());
section.hidden = false;

// A signed URL can be one of the size that is built.
const isSized = document.getElementById("sign-size");
isSized.parentElement.hidden = false;
document.getElementById("sign").addEventListener("formdata", ({ formData }) => {
  if (!isSized.checked) return;
  for (const [name, value] of new FormData(form)) if (value) formData.append(name, value);
});
show();
