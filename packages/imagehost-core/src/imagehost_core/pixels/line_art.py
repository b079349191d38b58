"""Line art: images of few colours, which a lossless encoding may store in fewer bytes."""

from __future__ import annotations

from PIL import Image

LINE_ART_MAX_COLOURS = 4_096
"""An image with no more colours in its sample may be line art."""
LINE_ART_SAMPLE_SIDE = 256
"""The maximum side of the sample, in pixels."""


def is_line_art(image: Image.Image) -> bool:
    """Return whether an image has so few colours that a lossless encoding may be smaller than a lossy one."""
    sample = image.convert("RGB")
    sample.thumbnail((LINE_ART_SAMPLE_SIDE, LINE_ART_SAMPLE_SIDE), Image.Resampling.NEAREST)
    return sample.getcolors(LINE_ART_MAX_COLOURS) is not None
