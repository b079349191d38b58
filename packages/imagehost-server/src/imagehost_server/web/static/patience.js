// Requests that wait: at a limit of the server as long as it says, and for the network.

const RETRY_SECONDS = 5;
const MAX_SECONDS = 3600;

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** Returns the seconds that a response with the status 429 or 503 asks to wait. */
export const secondsToWait = (header) => Math.min(Number(header) || RETRY_SECONDS, MAX_SECONDS);

/** Ends when the network is back, or after some seconds: the server may be what was not reached. */
export const waitForNetwork = () =>
  Promise.race([new Promise((resolve) => addEventListener("online", resolve, { once: true })), sleep(RETRY_SECONDS)]);

/**
 * Fetches as `fetch` does.
 *
 * @param {(seconds: number) => void} onWait Called before a request is repeated because of a limit.
 * @param {() => void} onLost Called before it is repeated because the server was not reached; without it, that throws.
 */
export async function fetchPatiently(url, options, onWait = () => {}, onLost) {
  for (;;) {
    let response;
    try {
      response = await fetch(url, options);
    } catch (error) {
      if (!onLost || error.name === "AbortError") throw error;
      onLost();
      await waitForNetwork();
      continue;
    }
    if (response.status !== 429 && response.status !== 503) return response;
    const seconds = secondsToWait(response.headers.get("retry-after"));
    onWait(seconds);
    await sleep(seconds);
  }
}
