from pathlib import Path

from imagehost_core.ids import new_image_id
from imagehost_core.storage import BlobStore, LocalBlobStore, MemoryBlobStore


def store(blobs: BlobStore, data: bytes) -> None:
    image_id = new_image_id()
    files = Path("files")
    files.mkdir()
    (files / "master").write_bytes(data)
    blobs.put(image_id, files)
    with blobs.open(image_id, "master") as master:
        print(type(blobs).__name__, master.read())
    blobs.delete(image_id)
    print(list(blobs.ids()))


store(MemoryBlobStore(), b"in memory")
with LocalBlobStore("blobs") as local:
    store(local, b"on disk")

# MemoryBlobStore b'in memory'
# []
# LocalBlobStore b'on disk'
# []
