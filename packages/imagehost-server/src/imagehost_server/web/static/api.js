// Requests to the JSON API with the session cookie; at a limit they wait as long as the server says.

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.details || error?.message || `status ${status}`);
    this.status = status;
    this.code = error?.code;
  }
}

/**
 * @param {HTMLElement} element With the data attributes `api` (the path of the API) and `csrf`.
 * @param {(seconds: number) => void} onWait Called before a request waits for the limits.
 * @returns {(method: string, path: string, body?: object, options?: object) => Promise<object>} Returns `data` of the
 *   response; `options` are those of `fetch`.
 */
export function connect(element, onWait = () => {}) {
  const { api, csrf } = element.dataset;
  return async function request(method, path, body, options) {
    for (;;) {
      const response = await fetch(api + path, {
        ...options,
        method,
        headers: { "content-type": "application/json", "x-csrf-token": csrf },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      if (response.status === 429 || response.status === 503) {
        const seconds = Number(response.headers.get("retry-after")) || 5;
        onWait(seconds);
        await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
        continue;
      }
      const result = await response.json();
      if (!response.ok) throw new ApiError(response.status, result.error);
      return result.data;
    }
  };
}
