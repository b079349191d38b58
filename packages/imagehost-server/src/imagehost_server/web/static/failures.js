// What pages say of an error of the JSON API: what to do, in the language of the page, and never the words of the API.
//
// `failures.py` does the same for the errors of forms.

const texts = JSON.parse(document.querySelector(".error-texts").textContent);
// The codes whose own sentences say all about a file.
const OF_FILES = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"];
const FIELD = / for ((?:(?! for ).)+?)(?:\[\d+\])? but received /g;

/** Returns the names of the fields that an error is about. */
export const fieldsOf = ({ details = "" }) => [...details.matchAll(FIELD)].map(([, name]) => name);

// A list has no titles and few texts, as its page is to be small.
const textOf = (code) =>
  texts.title ? `${texts.title[code]}. ${texts.text[code]}` : (texts.text[code] ?? texts.text.INTERNAL_ERROR);

/** Returns the sentence of each field that an error names; if it has none of them, that of the code. */
export function describeFailure(error) {
  const named = OF_FILES.includes(error.code) ? [] : fieldsOf(error);
  const sentences = new Set(named.map((name) => texts.field[name]));
  sentences.delete(undefined);
  return [...sentences].join(" ") || textOf(error.code);
}
