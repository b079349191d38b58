// Webhook receiver with Express. Run it with WEBHOOK_SECRET=whsec_…
import express from "express";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const app = express();

// Not express.json(): the signature covers the bytes of the body.
app.post("/hook", express.raw({ type: "application/json", limit: "1mb" }), (request, response) => {
  let event;
  try {
    event = webhook.verify(request.body.toString(), request.headers); // a Buffer alone is refused
  } catch {
    return response.sendStatus(401);
  }
  // Store it under the id, which a repeated delivery has too, and process it after the response.
  console.log(request.headers["webhook-id"], event.type, event.data.id);
  response.sendStatus(204);
});

app.listen(process.env.PORT ?? 9000, "127.0.0.1");
