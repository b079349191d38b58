// Webhook receiver as a route handler of Next: app/hook/route.js. WEBHOOK_SECRET is in .env.local.
import { Webhook } from "standardwebhooks";

export async function POST(request) {
  const body = await request.text(); // not json(): the signature covers the bytes of the body
  let event;
  try {
    // The library refuses request.headers itself.
    event = new Webhook(process.env.WEBHOOK_SECRET).verify(body, Object.fromEntries(request.headers));
  } catch {
    return new Response(null, { status: 401 });
  }
  // Store it under the id, which a repeated delivery has too, and process it after the response.
  console.log(request.headers.get("webhook-id"), event.type, event.data.id);
  return new Response(null, { status: 204 });
}
