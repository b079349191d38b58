"""Webhook receiver with FastAPI. Run it with WEBHOOK_SECRET=whsec_… uvicorn webhook_fastapi:app"""

import os

from fastapi import FastAPI, HTTPException, Request, Response
from standardwebhooks import Webhook, WebhookVerificationError

app = FastAPI()
webhook = Webhook(os.environ["WEBHOOK_SECRET"])


@app.post("/hook")
async def hook(request: Request) -> Response:
    body = await request.body()  # not a model: the signature covers the bytes of the body
    try:
        event = webhook.verify(body, dict(request.headers))
    except (WebhookVerificationError, ValueError) as error:  # ValueError: a malformed list of signatures
        raise HTTPException(401) from error
    # Store it under the id, which a repeated delivery has too, and process it after the response.
    print(request.headers["webhook-id"], event["type"], event["data"].get("id"), flush=True)
    return Response(status_code=204)
