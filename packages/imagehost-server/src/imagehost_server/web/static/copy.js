// A button beside each read-only field, which copies its value.

import { copyField } from "./clipboard.js";

const texts = JSON.parse(document.getElementById("texts").textContent);

for (const label of document.querySelectorAll("label.copy")) {
  const input = label.querySelector("input");
  const name = label.firstChild.textContent.trim();
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  const show = (text) => {
    button.textContent = text;
    button.ariaLabel = `${text}: ${name}`;
  };
  show(texts.copy);
  const row = document.createElement("span");
  row.className = "copy-row";
  input.replaceWith(row);
  row.append(input, button);
  input.addEventListener("focus", () => input.select());
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    if (!(await copyField(input))) return;
    show(texts.copied);
    setTimeout(show, 2000, texts.copy);
  });
}
