from imagehost_client import Client, RateLimitError
from imagehost_client.testing import make_png

# Three retries, a timeout of 60 seconds, and waiting instead of 429.
with Client(max_retries=3, timeout=60, pace=True) as client:
    image = client.upload(make_png())
    print(image.meta.attempts, image.meta.replayed)
    state = image.meta.rate_limit  # limit, remaining, reset; None if the host has no limits
    if state is not None and state.remaining == 0:
        print("no request before", state.reset)

    # Other settings for some calls. The deadline bounds a call with all its attempts and delays.
    hasty = client.with_options(timeout=2, deadline=5, max_retries=0, pace=False)
    try:
        hasty.images.get(image)
    except RateLimitError as error:
        print(error.retry_after, error.rate_limit)

    # One key, one image, even if another process repeats the call.
    first = client.upload(make_png(4, 4), idempotency_key=f"order {image.id}")
    again = client.upload(make_png(4, 4), idempotency_key=f"order {image.id}")
    print(again.id == first.id, again.meta.replayed)
# 1 False
# True True
