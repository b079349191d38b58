"""The common base class of both clients: settings, and image URLs, which need no requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING

from attrs import evolve

from imagehost_client import urls
from imagehost_client._calls import UNSET, Unset
from imagehost_client._config import Config, require_headers, require_positive_seconds
from imagehost_client._exchange import Environment
from imagehost_client._logging import configure_logging
from imagehost_client._pacing import shared_pacer

if TYPE_CHECKING:
    from typing import Self, Unpack

    from imagehost_client._calls import ImageRef
    from imagehost_client.urls import (
        Attributes,
        DisplayedImage,
        Loading,
        PictureParams,
        SourceFormat,
        SrcsetParams,
        TransformParams,
    )


class BaseClient:
    """The settings of a client, and its methods without network access."""

    def __init__(self, config: Config) -> None:
        configure_logging()
        self.config = config
        self.environment: Environment = Environment(pacer=shared_pacer(config.base_url, config.token))
        self.owns_http_client: bool = True
        self.bind_resources()

    def bind_resources(self) -> None:
        """Create the resources of this client."""

    def with_options(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        deadline: float | Unset | None = UNSET,
        max_retries: int | Unset = UNSET,
        pace: bool | Unset = UNSET,
        extra_headers: Mapping[str, str] | Unset = UNSET,
        extra_query: Mapping[str, str] | Unset = UNSET,
    ) -> Self:
        """Return a client with other settings that shares the connections of this one.

        For example, `client.with_options(timeout=5).images.get(id)`. Omitted arguments leave their values
        unchanged. Closing it has no effect.

        Args:
            timeout: The network timeout of an attempt, in seconds; `None` for no timeout.
            deadline: The time limit of a call with all its retries, in seconds; `None` for no limit.
            max_retries: The maximum number of retries.
            pace: Whether a call waits for the rate limit window to end instead of exceeding the limit.
            extra_headers: Headers of every request, added to those of this client.
            extra_query: Query parameters of every request, added to those of this client.

        Raises:
            ConfigurationError: A value is invalid, or a header is one that only the client sets.
        """
        config = self.config
        other = copy(self)
        other.config = evolve(
            config,
            timeout=config.timeout if timeout is UNSET else require_positive_seconds("timeout", timeout),
            deadline=config.deadline if deadline is UNSET else require_positive_seconds("deadline", deadline),
            retry=config.retry if max_retries is UNSET else evolve(config.retry, max_retries=max_retries),
            pace=config.pace if pace is UNSET else pace,
            extra_headers=config.extra_headers
            if extra_headers is UNSET
            else {**config.extra_headers, **require_headers(extra_headers)},
            extra_query=config.extra_query if extra_query is UNSET else {**config.extra_query, **extra_query},
        )
        other.owns_http_client = False
        other.bind_resources()
        return other

    def image_url(self, image: ImageRef, **params: Unpack[TransformParams]) -> str:
        """Return the delivery URL of an image, resized or in another format.

        Args:
            image: The image, its id, or any of its URLs.
            **params: `w` and `h` (pixels), `q` (1–100), `fit` (`cover`, `contain`, `fill`, `inside`,
                `outside`) and `fm` (`jpg` or
                `jpeg`, `png`, `webp`, `avif`, `auto`).

        Raises:
            ValueError: A value is out of its range.
        """
        return urls.image_url(image, cdn_url=self.config.cdn_url, **params)

    def srcset(
        self,
        image: DisplayedImage,
        widths: Iterable[int] = urls.DEFAULT_WIDTHS,
        **params: Unpack[SrcsetParams],
    ) -> str:
        """Return the value of a `srcset` attribute; `images.signed_srcset` is that of a private image.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width.
            **params: `q`, `fit` and `fm`.
        """
        return urls.srcset(image, widths, **params)

    def picture(
        self,
        image: DisplayedImage,
        widths: Iterable[int] = urls.DEFAULT_WIDTHS,
        *,
        alt: str | None = None,
        loading: Loading = "lazy",
        sizes: str = "100vw",
        formats: Iterable[SourceFormat] = urls.DEFAULT_FORMATS,
        attributes: Attributes | None = None,
        **params: Unpack[PictureParams],
    ) -> str:
        """Return a responsive `<picture>` element; `images.signed_picture` is that of a private image.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width.
            alt: The alternative text; by default the image's description.
            loading: `lazy` to load the image only when it is near the viewport, or `eager`.
            sizes: The `sizes` attribute: the display width.
            formats: Formats offered before the stored one, in order of preference.
            attributes: Attributes of `<img>`, such as `{"class": "hero"}`; `None` and `False` omit one,
                and `True` is one without a value.
            **params: `q` and `fit`.
        """
        return urls.picture(
            image,
            widths,
            alt=alt,
            loading=loading,
            sizes=sizes,
            formats=formats,
            attributes=attributes,
            **params,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.config.base_url!r})"
