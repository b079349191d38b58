"""Write a preview of each image of a folder; name the files that are none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from imagehost_core import ImageHostError, render
from imagehost_core.testing import make_image

photos, previews = Path("photos"), Path("previews")
photos.mkdir()
previews.mkdir()
(photos / "beach.png").write_bytes(make_image(640, 480))
(photos / "notes.txt").write_text("not an image")


def make_preview(path: Path) -> str:
    try:
        preview = render(path, w=300, fm="webp")
    except ImageHostError as error:
        return f"{path.name}: {error.code}"
    (previews / f"{path.stem}.webp").write_bytes(preview.data)
    return f"{path.name}: {preview.width} × {preview.height}"


with ThreadPoolExecutor() as executor:
    for line in executor.map(make_preview, sorted(photos.iterdir())):
        print(line)

# beach.png: 300 × 225
# notes.txt: UNSUPPORTED_MEDIA_TYPE
