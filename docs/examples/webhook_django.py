"""Webhook receiver with Django, in a site of one file. Run it with WEBHOOK_SECRET=whsec_…"""

import os

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from imagehost_client import WebhookVerificationError, webhooks

SECRETS = os.environ["WEBHOOK_SECRET"].split()  # two, separated by a space, during a rotation


@csrf_exempt  # a webhook has no cookie, and its signature says who sent it
@require_POST
def hook(request: HttpRequest) -> HttpResponse:
    try:
        event = webhooks.unwrap(request.body, dict(request.headers), SECRETS)
    except WebhookVerificationError:
        return HttpResponse(status=401)
    # Store it under the id, which a repeated delivery has too, and process it after the response.
    print(event.id, event.kind, getattr(event.data, "id", None), flush=True)
    return HttpResponse(status=204)


urlpatterns = [path("hook", hook)]

if __name__ == "__main__":
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY="x" * 50)
    port = os.environ.get("PORT", "9000")
    execute_from_command_line(["manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"])
