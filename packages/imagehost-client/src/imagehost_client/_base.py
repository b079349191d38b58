"""What both clients have in common: settings, and the addresses of pictures, for which nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

from attrs import evolve

from imagehost_client import urls
from imagehost_client._config import Config, seconds_above_zero
from imagehost_client._exchange import Environment

if TYPE_CHECKING:
    from typing import Self

    from imagehost_client._calls import ImageRef
    from imagehost_client.models import Image, PublicImage
    from imagehost_client.urls import Params


class BaseClient:
    """The settings of a client, and what needs no network."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.world = Environment()
        self.owns = True
        self.attach()

    def attach(self) -> None:
        """Make the resources of this client."""

    def with_options(
        self,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        max_retries: int | None = None,
        pace: bool | None = None,
    ) -> Self:
        """Return a client with other settings for some calls, over the same connections.

        `client.with_options(timeout=5).images.get(id)`. Closing it closes nothing.

        Args:
            timeout: Seconds that a try may wait for the network.
            deadline: Seconds that a call may take over all its tries.
            max_retries: Tries after the first.
            pace: Whether calls wait for a used-up rate limit to end before they are sent.
        """
        config = self.config
        other = copy(self)
        other.config = evolve(
            config,
            timeout=config.timeout if timeout is None else seconds_above_zero("timeout", timeout),
            deadline=config.deadline if deadline is None else seconds_above_zero("deadline", deadline),
            retry=config.retry if max_retries is None else evolve(config.retry, max_retries=max_retries),
            pace=config.pace if pace is None else pace,
        )
        other.owns = False
        other.attach()
        return other

    def image_url(self, image: ImageRef, **params: Params) -> str:
        """Return the address of an image, resized or in another format; nothing is sent.

        Args:
            image: The image, or its id.
            **params: `w` and `h` (pixels), `q` (1–100), `fit` (`cover`, `contain`, `fill`, `inside`,
                `outside`) and `fm` (`jpg`, `png`, `webp`, `avif`, `auto`).

        Raises:
            ValueError: A value is out of its range.
        """
        return urls.image_url(image, cdn_url=self.config.cdn_url, **params)

    def srcset(
        self, image: Image | PublicImage, widths: Iterable[int] = urls.DEFAULT_WIDTHS, **params: Params
    ) -> str:
        """Return the value of a `srcset` attribute; no candidate is wider than the image itself.

        Args:
            image: The image.
            widths: Widths in pixels.
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
        """Return a `<picture>` element with the best format and size for each viewer.

        Args:
            image: The image.
            widths: Widths in pixels; none is used that is above the image's own.
            sizes: How wide the picture is shown, as the `sizes` attribute says it.
            alt: What the picture shows; the image's description by default.
            formats: Formats that are offered before the stored one, best first.
            lazy: Whether it is loaded only when it comes near the screen.
            **params: `q` and `fit`.
        """
        return urls.picture_html(image, widths, sizes=sizes, alt=alt, formats=formats, lazy=lazy, **params)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.config.base_url!r})"
