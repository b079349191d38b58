// Every page of a session: its forms, questions before what cannot be undone, and uploading what is dropped.

import "./drop.js";
import { restoreForm } from "./forms.js";

// The outcome of a form is not shown again when the page is reloaded.
const address = new URL(location.href);
const isDone = address.searchParams.has("done");
if (isDone) {
  address.searchParams.delete("done");
  history.replaceState(history.state, "", address);
}
restoreForm(isDone);
