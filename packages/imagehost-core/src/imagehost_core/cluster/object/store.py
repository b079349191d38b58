"""Object stores by URL: S3, Google Cloud Storage and Azure, with credentials from their own variables.

Access is checked when a host starts.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from imagehost_core.cluster.object.client import PROBE
from imagehost_core.cluster.object.retries import describe, is_rejection
from imagehost_core.errors import EngineUnavailableError
from imagehost_core.settings import SettingsError, StorageProvider, StorageUrl

if TYPE_CHECKING:
    from obstore.store import (
        AzureConfig,
        ClientConfig,
        GCSConfig,
        ObjectStore,
        RetryConfig,
        S3Config,
        S3CredentialProvider,
    )

_MAX_CONNECT_SECONDS = 5.0
_NO_RETRIES: RetryConfig = {"max_retries": 0}
"""Requests are sent again by `RetryPolicy`, which knows the deadline and what a repeated one means."""
_CODE = re.compile(r"<Code>(\w+)</Code>")
"""The code in the body of an error of S3, such as `NoSuchBucket`."""
_NO_BUCKET = "NoSuchBucket"
_METADATA_SERVICE = "169.254.169.254"
"""The host that machines of a provider receive credentials from, used where the environment has none."""


def open_object_store(url: StorageUrl, request_seconds: float) -> ObjectStore:
    """Return the object store of a URL; sends no request.

    Credentials are read from the variables of the provider, such as `AWS_ACCESS_KEY_ID`, and from the
    metadata service of its machines.

    Args:
        url: The URL; only one whose endpoint begins with `http://` is used without TLS.
        request_seconds: The longest duration of a request.
    """
    options: ClientConfig = {
        "timeout": timedelta(seconds=request_seconds),
        "connect_timeout": timedelta(seconds=min(request_seconds, _MAX_CONNECT_SECONDS)),
        "allow_http": url.endpoint is not None and url.endpoint.startswith("http://"),
    }
    prefix = url.prefix or None
    if url.provider is StorageProvider.GOOGLE:
        google: GCSConfig = {} if url.endpoint is None else {"base_url": url.endpoint}
        return GCSStore(
            url.bucket, prefix=prefix, config=google, client_options=options, retry_config=_NO_RETRIES
        )
    if url.provider is StorageProvider.AZURE:
        azure: AzureConfig = {} if url.endpoint is None else {"endpoint": url.endpoint}
        return AzureStore(
            url.bucket, prefix=prefix, config=azure, client_options=options, retry_config=_NO_RETRIES
        )
    config: S3Config = {} if url.endpoint is None else {"endpoint": url.endpoint}
    if url.region is not None:
        config["region"] = url.region
    return S3Store(
        url.bucket,
        prefix=prefix,
        config=config,
        client_options=options,
        retry_config=_NO_RETRIES,
        credential_provider=_profile(),
    )


def _profile() -> S3CredentialProvider | None:
    """Return the credentials of a profile of the AWS command line, if `AWS_PROFILE` names one.

    Raises:
        ImportError: There is a profile, but the package boto3, which reads profiles, is not installed.
    """
    if "AWS_PROFILE" not in os.environ or "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    from obstore.auth.boto3 import Boto3CredentialProvider

    return Boto3CredentialProvider()


def require_access(store: ObjectStore, url: StorageUrl) -> None:
    """Raise SettingsError unless objects can be listed and written, and deleted ones are gone.

    Args:
        store: The object store.
        url: Its URL, for messages.

    Raises:
        EngineUnavailableError: The store does not respond, or has no such bucket, yet.
        SettingsError: The bucket has versioning, credentials are missing, access is denied, or the
            certificate of the store is not valid.
    """
    try:
        for _ in store.list(f"{PROBE}/"):
            break
        version = store.put(PROBE, b"", use_multipart=False)["version"]
    except (BaseError, FileNotFoundError) as error:
        if _METADATA_SERVICE in str(error):
            raise SettingsError(f"expected credentials for {url} in the environment but found none") from None
        code = _CODE.search(str(error))
        received = f"{code[1]}: {describe(error)}" if code else describe(error)
        details = f"expected access to {url} but received {received}"
        if (code is not None and code[1] == _NO_BUCKET) or not is_rejection(error):
            raise EngineUnavailableError("storage", details) from None
        raise SettingsError(details) from None
    # Google Cloud Storage returns the generation of each object.
    if version not in {None, "null"} and url.provider is not StorageProvider.GOOGLE:
        raise SettingsError(
            f"expected a bucket without versioning for {url} but it has versioning: deleted images would "
            "stay as earlier versions"
        )
