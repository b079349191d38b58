// The session of an account's page: whether it goes on, and the next one, which may begin in another tab.

const { name, ...texts } = JSON.parse(document.getElementById("session").textContent);
const { root, api } = document.body.dataset;
const channel = new BroadcastChannel(`imagehost-session${root}`);

/** The path of the JSON API. */
export { api };

/** Returns the CSRF token of the session, also of one that another tab has begun meanwhile. */
export const csrfToken = () => document.cookie.match(/(?:^|; )__\w+-imagehost-csrf=([^;]*)/)?.[1] ?? "";

/** Returns what an answer says of the session: `valid`, `ended`, `other` account, or that the site is `unreachable`. */
export async function readSession() {
  try {
    const response = await fetch(`${api}/account`, { cache: "no-store" });
    if (response.status === 401) return "ended";
    if (response.status >= 502) return "unreachable";
    if (!response.ok) return "valid"; // such as at a limit of requests
    return (await response.json()).data.account.name === name ? "valid" : "other";
  } catch {
    return "unreachable"; // or a page that a network shows to those who are not signed in to it
  }
}

/** Returns what to say of a state of `readSession`, with a link to sign in. */
export function describeSession(state) {
  const message = document.createElement("span");
  message.append(texts[state]);
  if (state === "ended") {
    const link = Object.assign(document.createElement("a"), { href: `${root}/login`, target: "_blank" });
    link.textContent = texts.sign_in;
    message.append(" ", link);
  }
  return message;
}

/** Ends when another tab has shown a page of a session, or the reader comes back to this one. */
export function waitForSession() {
  return new Promise((resolve) => {
    const controller = new AbortController();
    const end = () => {
      controller.abort();
      resolve();
    };
    channel.addEventListener("message", end, { signal: controller.signal });
    addEventListener("focus", end, { signal: controller.signal });
  });
}

channel.postMessage("shown");
