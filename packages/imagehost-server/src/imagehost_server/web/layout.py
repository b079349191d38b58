"""The layout of image grids: rows of equal height, whose images fill the width, without a script.

An image's share of its row is proportional to its aspect ratio. The Content-Security-Policy of the pages
forbids inline styles, so there is a class for each ratio from 0.2 to 5 in steps of 0.02; the image covers the
difference of at most 1 %.
"""

from __future__ import annotations

ROW_HEIGHT = 230
"""The least height of a row on wide screens, in CSS pixels; `--row` in the style sheet is the same."""
MAX_ENLARGEMENT = 1.5
"""The most times that an image is enlarged to fill its box in a row of the least height. If it is a little
smaller than the box, a frame around it would stand out among photographs; icons would only be blurred."""
_STEP = 2
_MIN, _MAX = 20, 500


def ratio_class(width: int, height: int) -> str:
    """Return the class of an image's box in a grid.

    Args:
        width: In pixels, at least 1.
        height: In pixels, at least 1.
    """
    return f"r{_hundredths(width, height)}"


def tile_width(width: int, height: int) -> int:
    """Return the least width of an image's box in a grid, in CSS pixels; the row may stretch it."""
    return round(_hundredths(width, height) * ROW_HEIGHT / 100)


def fills_tile(width: int, height: int) -> bool:
    """Return whether an image fills its box; a smaller one is shown in its own size in the middle of it."""
    return width * MAX_ENLARGEMENT >= tile_width(width, height)


def ratio_styles() -> str:
    """Return the style sheet of the classes."""
    return "".join(f".r{ratio}{{--ratio:{ratio / 100:g}}}\n" for ratio in range(_MIN, _MAX + 1, _STEP))


def _hundredths(width: int, height: int) -> int:
    ratio = round(100 * width / height / _STEP) * _STEP
    return min(max(ratio, _MIN), _MAX)
