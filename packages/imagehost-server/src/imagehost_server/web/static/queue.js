// The queue of an upload: requests of one or more files, within the limits of the server. The next one is sent while
// others are processed.
//
// It goes on by itself when the network is back, and when another tab has begun a new session.

import { secondsToWait, waitForNetwork } from "./patience.js";
import { api, csrfToken, readSession, waitForSession } from "./session.js";

const PARALLEL_REQUESTS = 3;
const FILES_PER_REQUEST = 20;
const BYTES_PER_REQUEST = 24e6;
const SINGLE_FILES = 6; // so many files get a request each; more share requests, as their number is limited
const ATTEMPTS = 3;

export class UploadQueue {
  /**
   * @param {object} settings {fields, onChange, onPause, onHold}: `fields` returns the options as [name, value];
   *   `onChange` is called with an item that has changed; `onPause` with the seconds until uploads go on, or 0; `onHold`
   *   with the state of `readSession` that keeps uploads from going on.
   */
  constructor(settings) {
    this.settings = settings;
    this.items = [];
    this.running = new Set();
    this.pausedUntil = 0;
    this.held = []; // requests without an outcome, while the network or the session is missing
    this.repeated = []; // those to be sent again now
    this.isHolding = false;
    this.remaining = Infinity; // requests that the server admits until `reset`, as far as it has told
    this.reset = null;
  }

  add(files) {
    const items = [...files].map((file) => ({ file, state: "waiting", sent: 0 }));
    this.items.push(...items);
    // Further files of the same drop are added in the same task.
    queueMicrotask(() => this.run());
    return items;
  }

  retry(...items) {
    for (const item of items) this.#set(item, "waiting", { sent: 0, error: null });
    this.run();
  }

  /** Cancels an item, unless all its bytes were sent: then the server may store it at any moment. */
  cancel(item) {
    const batch = item.batch;
    if (item.state === "waiting") this.#set(item, "cancelled");
    if (item.state !== "sending" || batch.isSent) return;
    this.#set(item, "cancelled");
    batch.request.abort();
  }

  run() {
    if (this.isHolding || Date.now() < this.pausedUntil) return;
    // One after the other, so that the images are in the order of the files: they have the times of arrival.
    while (this.running.size < Math.min(PARALLEL_REQUESTS, this.remaining) && !this.#isSending()) {
      const batch = this.repeated.shift() ?? this.#nextBatch();
      if (!batch) return;
      this.#send(batch);
    }
  }

  #nextBatch() {
    const items = this.#nextItems();
    return items.length && { items, key: crypto.randomUUID(), attempts: 0, fields: this.settings.fields() };
  }

  #isSending() {
    return [...this.running].some((batch) => !batch.isSent);
  }

  #nextItems() {
    const waiting = this.items.filter((item) => item.state === "waiting");
    const share = Math.ceil(waiting.length / PARALLEL_REQUESTS);
    const isSingle = waiting.length <= SINGLE_FILES || waiting[0].isAlone;
    const count = isSingle ? 1 : Math.min(share, FILES_PER_REQUEST);
    const chosen = [];
    let bytes = 0;
    for (const item of waiting) {
      bytes += item.file.size;
      if (chosen.length === count || (chosen.length > 0 && (bytes > BYTES_PER_REQUEST || item.isAlone))) break;
      chosen.push(item);
    }
    return chosen;
  }

  #send(batch) {
    const form = new FormData();
    for (const [name, value] of batch.fields) form.append(name, value);
    for (const item of batch.items) form.append("files[]", item.file);
    const request = new XMLHttpRequest();
    batch.request = request;
    batch.isSent = false;
    batch.started = performance.now();
    this.running.add(batch);
    for (const item of batch.items) this.#set(item, "sending", { batch, sent: 0 });
    request.upload.onprogress = (event) => this.#progress(batch, event.loaded);
    request.upload.onload = () => {
      batch.isSent = true;
      for (const item of batch.items) this.#set(item, "processing", { sent: item.file.size });
      this.run();
    };
    request.onload = () => this.#finish(batch, () => this.#receive(batch));
    request.onabort = () => this.#finish(batch, () => this.#requeue(batch));
    request.onerror = () => this.#finish(batch, () => this.#hold(batch, { code: "connection" }));
    request.open("POST", `${api}/upload`);
    request.setRequestHeader("X-CSRF-Token", csrfToken());
    request.setRequestHeader("Idempotency-Key", batch.key);
    request.responseType = "json";
    request.send(form);
  }

  /** Attributes the bytes that were sent to the files in their order. */
  #progress(batch, loaded) {
    const seconds = (performance.now() - batch.started) / 1000;
    batch.speed = loaded / Math.max(seconds, 0.001);
    for (const item of batch.items) {
      const sent = Math.min(item.file.size, Math.max(0, loaded));
      loaded -= item.file.size;
      if (sent !== item.sent) this.#set(item, item.state, { sent });
    }
  }

  #finish(batch, settle) {
    this.running.delete(batch);
    settle();
    this.run();
  }

  #receive(batch) {
    const { status, response } = batch.request;
    const isOurs = typeof response?.success === "boolean";
    const error = isOurs ? (response.error ?? {}) : { code: status === 413 ? "proxy_size" : "foreign", status };
    if (status === 429 || status === 503) {
      this.#pause(secondsToWait(batch.request.getResponseHeader("Retry-After")));
      this.#requeue(batch);
    } else if (isOurs && (status === 401 || status === 403)) {
      this.#hold(batch, error);
    } else if (status === 200 && response?.success) {
      this.#obeyLimit(batch.request);
      const errors = new Map(response.data.errors.map((error) => [error.index, error]));
      const images = response.data.images.values();
      batch.items.forEach((item, index) => {
        const error = errors.get(index);
        if (error) this.#set(item, "failed", { error });
        else this.#set(item, "done", { image: images.next().value });
      });
    } else if (status >= 400 && status < 500 && batch.items.length > 1) {
      // The files of a request that failed as a whole are sent alone, so that each has its own error.
      for (const item of batch.items) item.isAlone = true;
      this.#requeue(batch);
    } else if (status >= 500 && status !== 507) {
      this.#hold(batch, error);
    } else {
      this.#fail(batch, error);
    }
  }

  /** Sends no more requests than the window of the limits has left; both times are the server's. */
  #obeyLimit(request) {
    const [remaining, reset, date] = ["X-RateLimit-Remaining", "X-RateLimit-Reset", "Date"].map((name) =>
      request.getResponseHeader(name),
    );
    // Responses may arrive in another order than the requests were admitted, also those of two windows.
    if (Number(reset) < Number(this.reset)) return;
    const known = reset === this.reset ? this.remaining : Infinity;
    this.remaining = Math.min(known, remaining === null ? Infinity : Number(remaining));
    this.reset = reset;
    if (this.remaining > 0) return;
    const seconds = Number(reset) - Date.parse(date) / 1000;
    if (seconds > 0 && this.items.some((item) => item.state === "waiting")) this.#pause(seconds);
    else this.remaining = 1;
  }

  #requeue(batch) {
    for (const item of batch.items) if (item.state !== "cancelled") this.#set(item, "waiting", { sent: 0 });
  }

  #fail(batch, error) {
    for (const item of batch.items) this.#set(item, "failed", { error });
  }

  /**
   * Repeats a request, whose outcome may be unknown, under the same key, so that nothing is stored twice.
   *
   * An attempt counts only if the server is reached and the session is valid: then it is the request that fails.
   */
  async #hold(batch, error) {
    batch.error = error;
    this.held.push(batch);
    if (this.isHolding) return;
    this.isHolding = true;
    const isBlocked = await this.#waitUntilReady();
    this.isHolding = false;
    for (const one of this.held.splice(0)) {
      if (!isBlocked) one.attempts++;
      if (one.attempts >= ATTEMPTS) this.#fail(one, one.error);
      else setTimeout(() => this.#resend(one), isBlocked ? 0 : 1000 * 2 ** one.attempts);
    }
    this.run();
  }

  /** Waits for the network and the session; returns whether one of them was missing. */
  async #waitUntilReady() {
    let isBlocked = false;
    for (;;) {
      const state = await readSession();
      if (state === "valid") break;
      isBlocked = true;
      this.settings.onHold(state);
      await (state === "unreachable" ? waitForNetwork() : waitForSession());
    }
    if (isBlocked) this.settings.onHold("");
    return isBlocked;
  }

  #resend(batch) {
    // Only requests that the server has not received as a whole can be cancelled.
    if (batch.items.some((item) => item.state === "cancelled")) this.#requeue(batch);
    else this.repeated.push(batch);
    this.run();
  }

  #pause(seconds) {
    this.pausedUntil = Math.max(this.pausedUntil, Date.now() + seconds * 1000);
    clearTimeout(this.timer);
    const tick = () => {
      const rest = Math.ceil((this.pausedUntil - Date.now()) / 1000);
      this.settings.onPause(Math.max(0, rest));
      if (rest > 0) {
        this.timer = setTimeout(tick, 1000);
      } else {
        this.remaining = 1;
        this.run();
      }
    };
    tick();
  }

  #set(item, state, values = {}) {
    Object.assign(item, values, { state });
    this.settings.onChange(item);
  }
}
