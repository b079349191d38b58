// Requests to the JSON API with the session cookie; at a limit they wait as long as the server says.

import { fetchPatiently } from "./patience.js";
import { api, csrfToken } from "./session.js";

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message);
    this.status = status;
    this.code = error?.code; // undefined if the response is not from this site
    this.details = error?.details;
  }
}

/**
 * @param {(seconds: number) => void} onWait Called before a request waits for the limits.
 * @returns {(method: string, path: string, body?: object, options?: object) => Promise<object>} Returns `data` of the
 *   response; `options` are those of `fetch`.
 */
export function connect(onWait) {
  return async function request(method, path, body, options) {
    const headers = { "content-type": "application/json", "x-csrf-token": csrfToken() };
    const init = { ...options, method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    const response = await fetchPatiently(api + path, init, onWait);
    const result = await response.json().catch(() => ({}));
    if (!response.ok || !result.success) throw new ApiError(response.status, result.error);
    return result.data;
  };
}
