"""Give the images of a static site responsive variants; call `responsive` from the page hook of a plugin."""

import re
from html import escape
from pathlib import Path

from imagehost_core import inspect, render
from imagehost_core.testing import make_image

WIDTHS = (320, 640, 1280)


def responsive(page: str, source: Path, site: Path) -> str:
    def replace(match: re.Match[str]) -> str:
        image = source / match[1]
        info = inspect(image)
        candidates = []
        for width in (width for width in WIDTHS if width < info.width):
            name = f"{image.stem}-{width}.webp"
            (site / name).write_bytes(render(image, w=width, fm="webp").data)
            candidates.append(f"{name} {width}w")
        (site / image.name).write_bytes(render(image).data)  # without its metadata
        srcset = escape(", ".join(candidates))
        return f'<img src="{match[1]}" srcset="{srcset}" width="{info.width}" height="{info.height}"'

    return re.sub(r'<img src="([^"/:]+)"', replace, page)


source, site = Path("content"), Path("site")
source.mkdir()
site.mkdir()
(source / "cat.png").write_bytes(make_image(800, 600))
print(responsive('<img src="cat.png" alt="a cat">', source, site))
print(*sorted(path.name for path in site.iterdir()))

# <img src="cat.png" srcset="cat-320.webp 320w, cat-640.webp 640w" width="800" height="600" alt="a cat">
# cat-320.webp cat-640.webp cat.png
