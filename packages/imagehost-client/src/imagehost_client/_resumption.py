"""What a batch upload that resumes asks the host: whose journal it is, and which images still exist."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256

from attrs import evolve

from imagehost_client._calls.accounts import get_account
from imagehost_client._calls.call import Call, next_page
from imagehost_client._calls.images import get_image, list_images
from imagehost_client._config import Config
from imagehost_client._exchange import Calls
from imagehost_client._journal import FinishedUpload, Owner
from imagehost_client.errors import ForbiddenError, NotFoundError
from imagehost_client.models import AccountOverview, Image, Page

PAGE_SIZE = 100
"""The number of images in a page of a list."""


def identify(config: Config) -> Calls[Owner]:
    """Return the host and the account of a client.

    Raises:
        ImageHostError: The token is invalid, or the host was not reached.
    """
    try:
        account: AccountOverview = yield get_account()
        name: str | None = account.account.name
    except ForbiddenError:
        name = None
    return evolve(owner_by_token(config), account=name)


def owner_by_token(config: Config) -> Owner:
    """Return the host, and the token in place of the account."""
    token = config.token
    digest = None if token is None else sha256(token.get_secret_value().encode()).hexdigest()
    return Owner(config.base_url, None, digest)


def find_images(uploads: Iterable[FinishedUpload]) -> Calls[dict[str, Image]]:
    """Return the images of finished uploads that still exist, by id.

    The images created in the period of the uploads are listed, 100 by a request, as long as this needs no
    more requests than to get the missing ones one by one. Hence 10,000 uploads of one batch cost about 100
    requests, and a few uploads one each.

    Raises:
        ImageHostError: The token may not read images, or the host was not reached.
    """
    wanted = {upload.image_id: upload.created_at for upload in uploads}
    found: dict[str, Image] = {}
    call: Call[Page[Image]] | None = None
    if len(wanted) > 1:
        margin = timedelta(seconds=1)
        call = list_images(
            per_page=PAGE_SIZE,
            created_after=min(wanted.values()) - margin,
            created_before=max(wanted.values()) + margin,
        )
    requests = 0
    while call is not None and requests < len(wanted) - len(found):
        page: Page[Image] = yield call
        found |= {image.id: image for image in page.items if image.id in wanted}
        requests += 1
        call = next_page(call, page)
        if call is None:
            return found
    for image_id in wanted.keys() - found.keys():
        try:
            found[image_id] = yield get_image(image_id)
        except NotFoundError:
            continue
    return found
