"""The commands for delivered images: their URLs, and their bytes in any size and format."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from imagehost_client._cli.batches import Batch
from imagehost_client._cli.context import CommandContext, pass_context
from imagehost_client._cli.global_options import Command
from imagehost_client._cli.options import POSITIVE, parse_widths, transform_options
from imagehost_client._cli.output import format_size
from imagehost_client._cli.progress import DownloadBar
from imagehost_client._types import Fit, OutputFormat, TransformParams
from imagehost_client.errors import ImageHostError

SUFFIXES: dict[str, OutputFormat] = {
    ".jpg": "jpg",
    ".jpeg": "jpg",
    ".png": "png",
    ".webp": "webp",
    ".avif": "avif",
}
"""The `format` of an output file by its extension."""


@click.command("url", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@transform_options
@click.option(
    "--signed", type=POSITIVE, metavar="SECONDS", help="Print signed URLs that expire after SECONDS."
)
@click.option("--srcset", type=parse_widths, metavar="WIDTHS", help="Print a srcset, such as 320,640,1280.")
@click.option("--picture", type=parse_widths, metavar="WIDTHS", help="Print a <picture> element.")
@pass_context
def image_urls(
    context: CommandContext,
    *,
    images: tuple[str, ...],
    width: int | None,
    height: int | None,
    quality: int | None,
    fit: Fit | None,
    fm: OutputFormat | None,
    signed: int | None,
    srcset: Sequence[int] | None,
    picture: Sequence[int] | None,
) -> None:
    """Print the URLs of images.

    IMAGE is an id or any URL of an image.
    """
    if sum(option is not None for option in (signed, srcset, picture)) > 1:
        raise click.UsageError("expected one of --signed, --srcset and --picture but received several")
    client, console = context.connect(), context.console
    transform: TransformParams = {"w": width, "h": height, "q": quality, "fit": fit, "fm": fm}
    if signed is not None:
        for url in client.images.signed_urls(images, expires_in=signed, **transform):
            console.print(url.url)
        return
    for image in images:
        if srcset is not None:
            console.print(client.srcset(client.images.get(image), srcset, q=quality, fit=fit, fm=fm))
        elif picture is not None:
            console.print(client.picture(client.images.get(image), picture, q=quality, fit=fit))
        else:
            console.print(client.image_url(image, **transform))


@click.command("get", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@transform_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="File, directory, or - for standard output; the format follows from the file's extension.",
)
@pass_context
def get_images(
    context: CommandContext,
    *,
    images: tuple[str, ...],
    width: int | None,
    height: int | None,
    quality: int | None,
    fit: Fit | None,
    fm: OutputFormat | None,
    output: Path | None,
) -> None:
    """Get the bytes of images, resized or as stored.

    IMAGE is an id or any URL of an image. With one image, --output is a file, whose extension determines the
    format, unless --format is given. Several images require a directory, in which they are named by their
    ids.

    \b
    Examples:
      imagehost-client get 0aZ… -W 300 -o small.avif
      imagehost-client get 0aZ… 1bY… -o originals/
    """  # noqa: D301 - the escape sequence is click's
    to_stdout = output is None or str(output) == "-"
    in_directory = output is not None and not to_stdout and (output.is_dir() or str(output).endswith(os.sep))
    if len(images) > 1 and not in_directory:
        raise click.UsageError("expected an existing directory with --output for several images")
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("expected --output FILE or a pipe for an image but received a terminal")
    if fm is None and output is not None and not in_directory:
        fm = SUFFIXES.get(output.suffix.lower())
    transform: TransformParams = {"w": width, "h": height, "q": quality, "fit": fit, "fm": fm}
    client, batch = context.connect(), Batch(context.console)
    target = sys.stdout.buffer if output is None or to_stdout else output
    with DownloadBar(context.console, len(images)) as bar:
        for image in images:
            try:
                result = client.images.download(image, target, progress=bar.progress, **transform)
            except ImageHostError as error:
                if len(images) == 1:
                    raise
                batch.fail(image, error)
                continue
            if result.path is not None:
                size = format_size(result.size)
                context.console.note(f"{result.path}: {size} of {result.media_type}")
            bar.finish()
            batch.succeeded += 1
    batch.finish()
