"""Repack sdists so that the same files give the same bytes; setuptools stores times, owners and an order.

Usage: python repack_sdist.py SDIST ...

The time of all members is `SOURCE_DATE_EPOCH`, in seconds since 1970, or 1980-01-01.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))


def repack(path: Path) -> None:
    """Replace an sdist by one with the same members, in the order of their names."""
    target = io.BytesIO()
    with (
        tarfile.open(path, "r:gz") as source,
        gzip.GzipFile("", "wb", 9, target, mtime=EPOCH) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            member.mtime, member.pax_headers = EPOCH, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o111 else 0o644
            archive.addfile(member, source.extractfile(member) if member.isfile() else None)
    path.write_bytes(target.getvalue())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        repack(Path(argument))
