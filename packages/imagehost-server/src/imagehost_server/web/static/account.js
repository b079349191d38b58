// Every page of a session: its forms, questions before what cannot be undone, and uploading what is dropped.

import "./drop.js";
import { restoreForm } from "./forms.js";

// The address is that of the page which has the form: a reload sends nothing, and shows neither an outcome nor a secret again.
const address = new URL(document.body.dataset.address ?? location, location);
const isDone = address.searchParams.has("done");
if (isDone) address.searchParams.delete("done");
if (address.href !== location.href) history.replaceState(history.state, "", address);
restoreForm(isDone);

// The time zone in which pages show days and times.
const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
document.cookie = `imagehost-zone=${timeZone}; path=${document.body.dataset.root || "/"}; max-age=31536000; samesite=lax; secure`;
