import asyncio

from imagehost_client import AsyncClient
from imagehost_client.testing import make_png


async def main() -> None:
    async with AsyncClient() as client:
        album = await client.albums.create("Async")
        images = await asyncio.gather(
            *(client.upload(make_png(size, 1), album_id=album) for size in (1, 2, 3))
        )
        print([image.width for image in images])
        print(sum([image.width async for image in client.images.list(album_id=album)]))
        await client.albums.delete(album, delete_images=True)


asyncio.run(main())
# [1, 2, 3]
# 6
