"""The job that renders a variant, by the properties of an image and a transform: a pure decision.

It imports neither the store nor the worker processes, which `render` without a host does not need.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from imagehost_core.formats import DEFAULT_AVIF_SPEED, FORMATS, Format
from imagehost_core.jobs import RenderJob
from imagehost_core.transform import (
    AUTO,
    CARD_BYTES,
    MAX_OUTPUT_PIXELS,
    Plan,
    Size,
    Transform,
    accept_weight,
    frame_step,
    keeps_size,
    negotiate,
    plan,
)
from imagehost_core.workers.costs import avif_speed

if TYPE_CHECKING:
    from imagehost_core.models import Image
    from imagehost_core.records import ImageInfo


def new_job(
    image: Image | ImageInfo,
    transform: Transform,
    accept: str = "",
    *,
    enlarge: bool = True,
    preferred_avif_speed: int = DEFAULT_AVIF_SPEED,
) -> RenderJob:
    """Return the job that renders a variant.

    Args:
        image: The image.
        transform: The transform.
        accept: The request's `Accept` header, for `AUTO`.
        enlarge: Whether images are enlarged.
        preferred_avif_speed: The preferred speed of the AVIF encoder.
    """
    size = Size(image.width, image.height)
    geometry = partial(plan, size, transform, enlarge=enlarge)
    is_native = keeps_size(size, transform, enlarge=enlarge)
    choices: tuple[Format, ...] = ()
    # An image with too many pixels to be encoded is sent as it is stored.
    if transform.format is AUTO and not (is_native and size.pixels > MAX_OUTPUT_PIXELS):
        output = geometry().output
        choices = negotiate(accept, animated=image.is_animated, side=max(output.width, output.height))
    stored = Format(image.format)
    requested = transform.format if isinstance(transform.format, Format) else stored
    fmt = choices[0] if choices else requested
    animated = image.is_animated and FORMATS[fmt].animated
    has_all_frames = FORMATS[stored].animated or not image.is_animated
    is_sent = accept_weight(accept, stored) > 0 if choices else fmt is stored
    keeps_file = is_native and transform.quality is None and has_all_frames and is_sent
    is_kept = keeps_file and not choices and not transform.card
    steps = Plan.unchanged(size) if is_kept else geometry(max_side=FORMATS[fmt].max_side)
    # Where the format is not decided yet, its default is the encoder's.
    default = None if choices else FORMATS[fmt].default_quality
    return RenderJob(
        plan=steps,
        format=fmt,
        quality=transform.quality or default if FORMATS[fmt].has_quality else None,
        animated=animated,
        avif_speed=avif_speed(steps.output.pixels, preferred_avif_speed) if fmt is Format.AVIF else None,
        frame_step=frame_step(steps.output, image.frames) if animated else 1,
        keeps_file=keeps_file,
        choices=choices,
        max_bytes=CARD_BYTES if transform.card else None,
    )
