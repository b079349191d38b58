"""The common base class of both clients: settings, and image URLs, which need no requests."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

from attrs import evolve

from imagehost_client import urls
from imagehost_client._config import Config, require_positive_seconds
from imagehost_client._exchange import Environment

if TYPE_CHECKING:
    from typing import Self

    from imagehost_client._calls import ImageRef
    from imagehost_client.models import Image, PublicImage
    from imagehost_client.urls import Params


class BaseClient:
    """The settings of a client, and its methods without network access."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.environment = Environment()
        self.owns_http_client = True
        self.bind_resources()

    def bind_resources(self) -> None:
        """Create the resources of this client."""

    def with_options(
        self,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        max_retries: int | None = None,
        pace: bool | None = None,
    ) -> Self:
        """Return a client with other settings that shares the connections of this one.

        For example, `client.with_options(timeout=5).images.get(id)`. Closing it has no effect.

        Args:
            timeout: The network timeout of an attempt, in seconds.
            deadline: The time limit of a call with all its retries, in seconds.
            max_retries: The maximum number of retries.
            pace: Whether a call waits for the rate limit window to end instead of exceeding the limit.
        """
        config = self.config
        other = copy(self)
        other.config = evolve(
            config,
            timeout=config.timeout if timeout is None else require_positive_seconds("timeout", timeout),
            deadline=config.deadline if deadline is None else require_positive_seconds("deadline", deadline),
            retry=config.retry if max_retries is None else evolve(config.retry, max_retries=max_retries),
            pace=config.pace if pace is None else pace,
        )
        other.owns_http_client = False
        other.bind_resources()
        return other

    def image_url(self, image: ImageRef, **params: Params) -> str:
        """Return the delivery URL of an image, resized or in another format.

        Args:
            image: The image, its id, or any of its URLs.
            **params: `w` and `h` (pixels), `q` (1–100), `fit` (`cover`, `contain`, `fill`, `inside`,
                `outside`) and `fm` (`jpg`, `png`, `webp`, `avif`, `auto`).

        Raises:
            ValueError: A value is out of its range.
        """
        return urls.image_url(image, cdn_url=self.config.cdn_url, **params)

    def srcset(
        self, image: Image | PublicImage, widths: Iterable[int] = urls.DEFAULT_WIDTHS, **params: Params
    ) -> str:
        """Return the value of a `srcset` attribute.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width.
            **params: `q`, `fit` and `fm`.
        """
        return urls.srcset(image, widths, **params)

    def picture_html(
        self,
        image: Image | PublicImage,
        widths: Iterable[int] = urls.DEFAULT_WIDTHS,
        *,
        sizes: str = "100vw",
        alt: str | None = None,
        formats: Iterable[str] = ("avif", "webp"),
        lazy: bool = True,
        **params: Params,
    ) -> str:
        """Return a responsive `<picture>` element, with several formats and sizes.

        Args:
            image: The image.
            widths: Widths in pixels, limited to the image's width.
            sizes: The `sizes` attribute: the display width.
            alt: The alternative text; by default the image's description.
            formats: Formats offered before the stored one, in order of preference.
            lazy: Whether to load the image only when it is near the viewport.
            **params: `q` and `fit`.
        """
        return urls.picture_html(image, widths, sizes=sizes, alt=alt, formats=formats, lazy=lazy, **params)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.config.base_url!r})"
