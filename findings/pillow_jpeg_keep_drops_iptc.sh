#!/usr/bin/env bash
# Pillow reads the IPTC data of a JPEG, and has no way to keep it when it saves one, also with quality="keep".
# 
# Pillow 13.0.0. By-line and copyright of press photographs are in APP13. EXIF, the ICC profile, XMP and the comment can
# be passed to save(); what the attribute info names "photoshop" cannot.
# Seen: By-line Anna in the opened file, no APP13 in the saved one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pillow==13.0.0
env/bin/python - <<'PYTHON'
import struct
from io import BytesIO

from PIL import Image, IptcImagePlugin

file = BytesIO()
Image.new("RGB", (16, 16), "red").save(file, "JPEG")
by_line = b"\x1c\x02\x50" + struct.pack(">H", 4) + b"Anna"
resource = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(by_line)) + by_line + b"\0" * (len(by_line) % 2)
segment = b"Photoshop 3.0\0" + resource
plain = file.getvalue()
with_iptc = plain[:2] + b"\xff\xed" + struct.pack(">H", len(segment) + 2) + segment + plain[2:]

with Image.open(BytesIO(with_iptc)) as image:
    found = IptcImagePlugin.getiptcinfo(image)
    saved = BytesIO()
    image.save(saved, "JPEG", quality="keep", **{name: image.info[name] for name in image.info})
print("opened", found, "saved with IPTC", b"Anna" in saved.getvalue())
assert found == {(2, 80): b"Anna"}, found
assert b"Photoshop" not in saved.getvalue()
PYTHON
