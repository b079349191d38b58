#!/usr/bin/env bash
# An animated GIF has no thumbnail: OSError, where a GIF of one frame has one.
# 
# easy-thumbnails 2.10.1 with Django 5.2.19 and Pillow 13.0.0, default settings. Each frame is resized and kept as a palette,
# and the result is to be a JPEG. The same animation as WebP has a thumbnail, a JPEG of its first frame.
# Seen: GIF "cannot write mode P as JPEG", still GIF and animated WebP JPEG.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet easy-thumbnails==2.10.1 django==5.2.19 pillow==13.0.0
env/bin/python - <<'PYTHON'
from pathlib import Path

import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["easy_thumbnails"],
    MEDIA_ROOT="media",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()

from django.core.management import call_command
from easy_thumbnails.files import get_thumbnailer
from PIL import Image

call_command("migrate", run_syncdb=True, verbosity=0)
Path("media").mkdir()
first, *others = [Image.new("RGB", (60, 40), colour) for colour in ("red", "green", "blue")]
first.save("media/still.gif")
for extension in ("gif", "webp"):
    first.save(f"media/animated.{extension}", save_all=True, append_images=others, duration=100)
seen = {}
for name in ("still.gif", "animated.webp", "animated.gif"):
    with Path("media", name).open("rb") as file:
        try:
            thumbnail = get_thumbnailer(file, relative_name=name).get_thumbnail({"size": (30, 30)})
            with Image.open(thumbnail.path) as image:
                seen[name] = image.format
        except OSError as error:
            seen[name] = str(error)
print(seen)
assert seen == {"still.gif": "JPEG", "animated.webp": "JPEG", "animated.gif": "cannot write mode P as JPEG"}, seen
PYTHON
