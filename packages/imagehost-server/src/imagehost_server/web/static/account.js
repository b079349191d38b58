// Every page of a session: questions before what cannot be undone, and uploading what is dropped.

import "./drop.js";

document.addEventListener("submit", (event) => {
  const { confirm: question } = event.target.dataset;
  if (question && !confirm(question)) event.preventDefault();
});

// The outcome of a form is not shown again when the page is reloaded.
const address = new URL(location.href);
if (address.searchParams.has("done")) {
  address.searchParams.delete("done");
  history.replaceState(history.state, "", address);
}
