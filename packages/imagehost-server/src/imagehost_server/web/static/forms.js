// Forms whose text is not lost: neither with the session, nor with the network.
//
// What is sent is kept in this tab, until a page shows that it has arrived. After signing in again, and after Back, it is
// in the form again. Passwords are not kept.

import { csrfToken, describeSession } from "./session.js";

const STORAGE_KEY = "imagehost-form";
const pageOf = ({ pathname, search }) => pathname + search;
const isKept = ({ type }) => !["hidden", "password", "file", "submit", "button", "fieldset"].includes(type);
const formsOf = (action) => [...document.querySelectorAll("form")].filter((form) => form.getAttribute("action") === action);

document.addEventListener("submit", (event) => {
  const { target: form } = event;
  const token = form.elements.namedItem("csrf_token");
  if (event.defaultPrevented || !token) return;
  const { confirm: question } = form.dataset;
  if (question && !confirm(question)) return event.preventDefault();
  if (!navigator.onLine) {
    event.preventDefault();
    say(form, "lost");
    return;
  }
  // Another tab may have begun a new session.
  token.value = csrfToken() || token.value;
  const action = form.getAttribute("action");
  const values = [...form.elements].filter(isKept).map(({ name, value, checked }) => ({ name, value, checked }));
  store({ page: pageOf(location), action, index: formsOf(action).indexOf(form), values });
});

function store(entry) {
  try {
    if (entry) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(entry));
    else sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    // The browser stores nothing.
  }
}

/** Fills the form of this page whose text has not arrived; `isDone` says that a form of it has. */
export function restoreForm(isDone) {
  let entry = null;
  try {
    entry = JSON.parse(sessionStorage.getItem(STORAGE_KEY));
  } catch {
    // Another version, or no storage.
  }
  const { type, responseStatus } = performance.getEntriesByType("navigation")[0];
  const isFailure = responseStatus >= 400;
  const isSignedIn = document.referrer.startsWith(`${location.origin}${document.body.dataset.root}/login`);
  const isNeeded = isFailure || isSignedIn || type === "back_forward";
  const form = entry && isNeeded && !isDone && entry.page === pageOf(location) && formsOf(entry.action)[entry.index];
  // The page of an error leads back to the form.
  if (!form && isFailure) return;
  store(null);
  if (!form) return;
  [...form.elements].filter(isKept).forEach((field, index) => {
    const { name, value, checked } = entry.values[index] ?? {};
    if (name !== field.name) return;
    if (["checkbox", "radio"].includes(field.type)) field.checked = checked;
    else field.value = value;
  });
  form.closest("details")?.setAttribute("open", "");
  if (!isFailure) say(form, isSignedIn ? "restored" : "not_sent");
}

function say(form, key) {
  form.querySelector(".message.session")?.remove();
  const message = Object.assign(document.createElement("p"), { className: "message session", role: "alert" });
  message.append(describeSession(key));
  form.append(message);
}
