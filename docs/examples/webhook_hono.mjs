// Webhook receiver with Hono, for Cloudflare Workers, Deno, Bun and Node; WEBHOOK_SECRET is a secret of the Worker.
import { Hono } from "hono";
import { Webhook } from "standardwebhooks";

const app = new Hono();

app.post("/hook", async (context) => {
  const body = await context.req.text(); // not json(): the signature covers the bytes of the body
  let event;
  try {
    // context.req.header() is an object; the library refuses a Headers of Fetch.
    event = new Webhook(context.env.WEBHOOK_SECRET).verify(body, context.req.header());
  } catch {
    return context.body(null, 401);
  }
  // Store it under the id, which a repeated delivery has too; a queue of the Worker can process it.
  console.log(context.req.header("webhook-id"), event.type, event.data.id);
  return context.body(null, 204);
});

export default app;
