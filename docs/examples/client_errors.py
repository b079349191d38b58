from imagehost_client import (
    Client,
    ImageHostError,
    RateLimitError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_client.testing import make_png

with Client(max_retries=5, timeout=30) as client:
    try:
        client.upload(b"this is no image", filename="notes.txt")
    except UnsupportedMediaTypeError as error:
        print(error.code, error.status)
    try:
        client.upload(make_png(), album_id=999_999)
    except ValidationError as error:
        print(error.fields)  # error.details names the expected and the received value
    except RateLimitError as error:
        print("retry after", error.retry_after, "s", error.rate_limit)
    except ImageHostError as error:
        print(error.message, error.details, error.request_id)

    quick = client.with_options(timeout=5, deadline=10, max_retries=0)  # for some calls only
    print(quick.account().meta.request_id is not None)
# UNSUPPORTED_MEDIA_TYPE 415
# ('album_id',)
# True
