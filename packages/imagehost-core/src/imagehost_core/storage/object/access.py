"""The check of access to an object store when a host starts."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from imagehost_core.settings import SettingsError, StorageProvider, StorageUrl
from imagehost_core.storage.object.client import PROBE
from imagehost_core.storage.object.retries import describe, is_rejection

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CODE = re.compile(r"<Code>(\w+)</Code>")
"""The code in the body of an error of S3, such as `NoSuchBucket`."""
_METADATA_SERVICE = "169.254.169.254"
"""The host that machines of a provider receive credentials from, used where the environment has none."""

log = logging.getLogger(__name__)


def require_access(store: ObjectStore, url: StorageUrl) -> None:
    """Raise SettingsError unless objects can be listed and written, and deleted ones are gone.

    A store that does not respond is logged only: it may respond later.

    Args:
        store: The object store.
        url: Its URL, for messages.

    Raises:
        SettingsError: There is no such bucket, it has versioning, credentials are missing, or access denied.
    """
    try:
        for _ in store.list(f"{PROBE}/"):
            break
        version = store.put(PROBE, b"", use_multipart=False)["version"]
    except (BaseError, FileNotFoundError) as error:
        if _METADATA_SERVICE in str(error):
            raise SettingsError(f"expected credentials for {url} in the environment but found none") from None
        if not is_rejection(error):
            log.warning("object store does not respond: url=%s error=%s", url, describe(error))
            return
        code = _CODE.search(str(error))
        received = f"{code[1]}: {describe(error)}" if code else describe(error)
        raise SettingsError(f"expected access to {url} but received {received}") from None
    # Google Cloud Storage returns the generation of each object.
    if version not in {None, "null"} and url.provider is not StorageProvider.GOOGLE:
        raise SettingsError(
            f"expected a bucket without versioning for {url} but it has versioning: deleted images would "
            "stay as earlier versions"
        )
