#!/usr/bin/env bash
# The verifiers of webhooks in npm refuse the Headers and the bytes that fetch handlers have.
# 
# standardwebhooks 1.1.1 and svix 1.99.1. Headers are read as properties, which a Headers object has none of, and a body
# must be a string or a Buffer, which no Uint8Array is: handlers of Next.js, Hono or Workers need
# Object.fromEntries(headers) and the text of the body.
# Seen: Headers 'Missing required headers', Uint8Array refused, entries and text verified.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund standardwebhooks@1.1.1 svix@1.99.1
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {Webhook as Standard} from 'standardwebhooks';
import {Webhook as Svix} from 'svix';

const body = '{"type":"image.uploaded"}';
const now = new Date();
for (const Webhook of [Standard, Svix]) {
  const webhook = new Webhook('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
  const headers = new Headers({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(now / 1000)),
    'webhook-signature': webhook.sign('msg_1', now, body),
  });
  const entries = Object.fromEntries(headers);
  const outcome = (payload, given) => {
    try { return webhook.verify(payload, given).type; } catch (error) { return error.message; }
  };
  const seen = [outcome(body, headers), outcome(new TextEncoder().encode(body), entries), outcome(body, entries)];
  console.log(seen);
  assert.deepStrictEqual(seen, [
    'Missing required headers',
    'Expected payload to be of type string or Buffer.',
    'image.uploaded',
  ]);
}
JAVASCRIPT
node try.mjs
