"""The command `upload`: files, folders, patterns and standard input."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Unpack

import click
from attrs import define, field

from imagehost_client._batches import FATAL_ERRORS, UploadResult
from imagehost_client._calls.uploads import MAX_FILES_PER_REQUEST
from imagehost_client._cli.albums import find_album
from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.errors import (
    SUPPORTED,
    ExitStatus,
    batch_status,
    describe_content,
    exit_status,
    find_hint,
)
from imagehost_client._cli.folder_watch import FolderWatch, watch
from imagehost_client._cli.options import POSITIVE, QUALITY, Command, choices, flag, switch_options
from imagehost_client._cli.output import Console, copy_to_clipboard, counted
from imagehost_client._cli.progress import ProgressBar
from imagehost_client._journal import Journal
from imagehost_client._resumption import owner_by_token
from imagehost_client._types import UPLOAD_FORMATS, BatchOptions, Source
from imagehost_client.client import Client
from imagehost_client.errors import (
    APIConnectionError,
    ImageHostError,
    RateLimitError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from imagehost_client.files import expand_sources, has_place, open_file
from imagehost_client.models import Image
from imagehost_client.uploads import UploadInterrupted

NOT_ATTEMPTED = "not attempted"


def describe_failure(result: UploadResult) -> str:
    """Return the message for a failed file: its name and error, and what it is if it is no image."""
    name, error = _source_name(result.source), result.error
    if not result.attempted:
        return f"{name}: {NOT_ATTEMPTED}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    if not isinstance(error, UnsupportedMediaTypeError):
        return f"{name}: {error}"
    content = describe_content(name)
    return f"{name}: {error}" + (f"; the file is {content}" if content else "")


def print_summary(console: Console, results: Sequence[UploadResult]) -> None:
    """Print which files were not attempted, why the batch stopped, and the counts by kind of failure."""
    if not results:
        console.error(f"no images found; folders are searched for {SUPPORTED}")
    failed = [result for result in results if result.error is not None]
    untried = [result for result in failed if not result.attempted]
    for result in untried:
        console.error(describe_failure(result))
    printed = {str(result.error) for result in failed if result.attempted}
    for reason in dict.fromkeys(str(result.error) for result in untried):
        if reason not in printed:
            console.error(f"stopped: {reason}")
    if failed and len(results) > 1:
        counts = Counter(_kind_of(result) for result in failed)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kinds = "; ".join(f"{count} × {kind}" for kind, count in ordered)
        console.error(f"{len(failed)} of {counted(len(results), 'file')} failed: {kinds}")


def _kind_of(result: UploadResult) -> str:
    error = result.error
    if not result.attempted:
        return NOT_ATTEMPTED
    if isinstance(error, ImageHostError):
        return error.message
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _source_name(source: Source) -> str:
    content = source[1] if isinstance(source, tuple) else source
    if isinstance(content, (str, os.PathLike)):
        return os.fspath(content)
    return source[0] if isinstance(source, tuple) else "file"


LINES: dict[str, Callable[[Image], str]] = {
    "url": lambda image: image.url,
    "markdown": lambda image: image.links.markdown,
    "html": lambda image: image.links.html,
    "bbcode": lambda image: image.links.bbcode,
    "json": lambda image: json.dumps(image.to_dict()),
}
"""The line that `upload` prints for an image, by its option."""

TEMPORARY_ERRORS = (APIConnectionError, UnavailableError, RateLimitError)
"""The errors after which a watched file is tried again."""


@define(kw_only=True)
class Job:
    """How files are uploaded, what is printed, and what came of it.

    Attributes:
        line: A function that returns the line for an image.
        lines: The printed lines.
        results: The results of all files.
    """

    client: Client
    context: CommandContext
    options: BatchOptions
    line: Callable[[Image], str]
    lines: list[str] = field(factory=list)
    results: list[UploadResult] = field(factory=list)

    def run(self, sources: Iterable[Source]) -> list[UploadResult]:
        """Upload sources, and print a line for each in their order, as soon as those before it have one.

        Returns:
            The results of these sources, in their order.

        Raises:
            UploadInterrupted: Ctrl-C was pressed; the lines of what was stored are printed.
        """
        files = list(sources)
        finished: list[UploadResult] = []
        if self.options.get("remove_exif") is None:
            self._warn_of_places(files)
        with ProgressBar(self.context.console, files) as bar:
            self.client.environment.on_wait = bar.wait
            options: BatchOptions = {**self.options, "progress": bar.progress}
            uploads = self.client.upload_iter(files, **options)
            try:
                for result in uploads:
                    bar.result(result)
                    while len(finished) in uploads.by_position:
                        finished.append(uploads.by_position[len(finished)])
                        self._report(finished[-1])
            except KeyboardInterrupt:
                uploads.close()
                for position, result in sorted(uploads.by_position.items()):
                    if position >= len(finished):
                        self._report(result)
                raise uploads.interrupted() from None
        return finished

    def _warn_of_places(self, files: Sequence[Source]) -> None:
        count = sum(isinstance(file, (str, os.PathLike)) and has_place(file) for file in files)
        if count:
            self.context.console.note(
                f"{count} of {counted(len(files), 'file')} tell in EXIF where they were taken, which hosts "
                "keep by default; --remove-exif removes it, --keep-exif omits this note"
            )

    def _report(self, result: UploadResult) -> None:
        """Print the line or the error of a file; files that were not attempted are printed at the end."""
        self.results.append(result)
        if result.image is not None:
            self.lines.append(self.line(result.image))
            self.context.console.print(self.lines[-1])
        elif result.attempted:
            self.context.console.error(describe_failure(result))


@click.command("upload", cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--json", "line_format", flag_value="json", help="Print one JSON record per line.")
@click.option("--markdown", "line_format", flag_value="markdown", help="Print Markdown.")
@click.option("--html", "line_format", flag_value="html", help="Print HTML.")
@click.option("--bbcode", "line_format", flag_value="bbcode", help="Print BBCode.")
@click.option("--copy", is_flag=True, help="Copy the printed lines to the clipboard too.")
@click.option(
    "--album", metavar="ALBUM", help="Add the images to this album: its id, URL or name. Made if missing."
)
@click.option("--description", metavar="TEXT")
@click.option("--name", metavar="NAME", help="File name, for a single file.")
@switch_options(
    "is_public",
    ("--public", "In the public gallery.  [default: unless the album is private]"),
    ("--private", "Only in your lists."),
)
@click.option("--quality", type=QUALITY, metavar="N", help="1 to 100.")
@click.option("--format", type=choices(UPLOAD_FORMATS), help="Format in which to store.")
@flag("--keep-format", "convert_to_webp", False, "Do not convert to WebP.")
@flag("--remove-exif", "remove_exif", True, "Remove the metadata, such as the place.")
@flag("--keep-exif", "remove_exif", False, "Keep the metadata, without a note about places.")
@flag("--auto-rename", "auto_rename", True, "Store under a random file name.")
@flag("--reuse", "reuse", True, "Reuse your image of the same file and options, if there is one.")
@click.option("--checksum", is_flag=True, help="Verify checksums (with --keep-format).")
@click.option("--parallel", type=POSITIVE, default=4, metavar="N", help="Concurrent uploads.  [default: 4]")
@click.option(
    "--files-per-request",
    type=click.IntRange(1, MAX_FILES_PER_REQUEST),
    metavar="N",
    help=f"1 to {MAX_FILES_PER_REQUEST}.  [default: as many as the rate limit requires]",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Record progress in this file, to resume a run.  [default: a file until the command has succeeded]",
)
@click.option("--no-journal", is_flag=True, help="Record nothing, so that no run resumes.")
@click.option("--watch", "is_watching", is_flag=True, help="Upload images as they are added to the folders.")
@click.option("--existing", is_flag=True, help="With --watch: first upload the images that are there.")
@pass_context
def upload(
    context: CommandContext,
    *,
    files: tuple[str, ...],
    line_format: str | None,
    copy: bool,
    album: str | None,
    name: str | None,
    is_watching: bool,
    existing: bool,
    no_journal: bool,
    **options: Unpack[BatchOptions],
) -> None:
    """Upload files, folders, patterns, or - for standard input.

    Prints a URL for each image as soon as it is stored.

    \b
    Examples:
      imagehost-client upload photos/ cat.jpg --album Cats
      imagehost-client upload 'scans/**/*.png' --journal done
      grim - | imagehost-client upload - --name screen.png --copy
      imagehost-client upload --watch ~/Screenshots
    """  # noqa: D301 - the escape sequence is click's
    if existing and not is_watching:
        raise click.UsageError("expected --existing together with --watch but received it alone")
    sources = [] if is_watching else _sources(files, name)
    watched = _watched(files, name) if is_watching else None
    client = context.connect()
    options["album_id"] = None if album is None else find_album(client, album, create=True)
    job = Job(client=client, context=context, options=options, line=LINES[line_format or "url"])
    if watched is not None:
        _watch(job, watched, existing=existing, copies=copy)
    else:
        own = None
        if len(sources) > 1 and not no_journal and not options.get("journal"):
            try:
                own = options["journal"] = own_journal(context.journals, client, sources, options)
            except OSError as error:
                context.console.note(f"no journal is written: {error}")
        job.run(sources)
        if own is not None and not any(isinstance(one.error, REPEATED_ERRORS) for one in job.results):
            own.unlink(missing_ok=True)
        if copy and job.lines:
            _copy(context, job.lines)
    _finish(job)


REPEATED_ERRORS = (*TEMPORARY_ERRORS, *FATAL_ERRORS)
"""The errors after which the command may be repeated, with the journal of its first run."""
JOURNAL_DAYS = 7
"""The age from which journals are deleted."""


def own_journal(
    directory: Path, client: Client, sources: Sequence[Source], options: Mapping[str, object]
) -> Path:
    """Return the journal of this command: the same where it is repeated after an interruption.

    Args:
        directory: The directory of journals; old ones are deleted.
        client: The client.
        sources: The files.
        options: The options of the upload.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in directory.iterdir():
        if path.stat().st_mtime < time.time() - JOURNAL_DAYS * 86_400:
            path.unlink(missing_ok=True)
    owner = owner_by_token(client.config)
    files = [os.path.realpath(source) for source in sources if isinstance(source, (str, os.PathLike))]
    identity = json.dumps([str(owner), owner.token_sha256, files, options], default=str)
    path = directory / sha256(identity.encode()).hexdigest()[:32]
    with Journal(path) as journal:
        journal.bind(owner)
    return path


def _watch(job: Job, folders: FolderWatch, *, existing: bool, copies: bool) -> None:
    """Upload the images that are added to folders, until an interrupt or an error that all would have.

    A journal, temporary unless the user has named one, has the idempotency keys of repeated uploads.
    """
    if not existing:
        folders.ignore_existing()
    job.context.console.note(f"watching {', '.join(map(str, folders.folders))}; Ctrl-C ends")
    with tempfile.TemporaryDirectory(prefix="imagehost-client-") as directory:
        job.options["journal"] = job.options.get("journal") or Path(directory) / "journal"
        looks = watch(folders, job.context.wait)
        while True:
            first = len(job.lines)
            try:
                results = job.run(next(looks))
            except KeyboardInterrupt:
                raise UploadInterrupted(job.results, len(job.results)) from None
            if copies and job.lines[first:]:
                _copy(job.context, job.lines[first:])
            if any(isinstance(result.error, FATAL_ERRORS) for result in results):
                job.results = results
                return
            print_summary(job.context.console, results)
            folders.retry(
                result.source
                for result in results
                if isinstance(result.error, TEMPORARY_ERRORS) and isinstance(result.source, Path)
            )


def _finish(job: Job) -> None:
    """Print how many files failed and why, and end the command with the exit status."""
    print_summary(job.context.console, job.results)
    if not job.results:
        raise click.exceptions.Exit(ExitStatus.FAILURE)
    failures = [result.error for result in job.results if result.error is not None]
    hints = dict.fromkeys(find_hint(error, job.context.connection) for error in failures)
    for hint in filter(None, hints):
        job.context.console.error(hint)
    status = batch_status(map(exit_status, failures), len(job.lines))
    if status is not ExitStatus.SUCCESS:
        raise click.exceptions.Exit(status)


def _sources(files: tuple[str, ...], name: str | None) -> list[Source]:
    """Return single files for the arguments, with standard input in a temporary file."""
    if name and len(files) > 1:
        raise click.UsageError("expected one file with --name but received several")
    if files.count("-") > 1:
        raise click.UsageError("expected - (standard input) once but received it several times")
    sources: list[Source] = []
    for file in files:
        if file == "-":
            if sys.stdin.isatty():
                raise click.UsageError("expected a pipe or a file as standard input but received a terminal")
            stdin = open_file((name or "stdin", sys.stdin.buffer))
            sources.append((stdin.name, stdin.stream))
        elif name:
            sources.append((name, file))
        else:
            sources.extend(expand_sources(file))
    return sources


def _watched(files: tuple[str, ...], name: str | None) -> FolderWatch:
    folders = tuple(Path(file) for file in files)
    others = [str(folder) for folder in folders if not folder.is_dir()]
    if others or name:
        raise click.UsageError(
            f"expected folders with --watch but received {others[0] if others else '--name'}"
        )
    return FolderWatch(folders)


def _copy(context: CommandContext, lines: list[str]) -> None:
    if not copy_to_clipboard("\n".join(lines)):
        context.console.error("expected a clipboard for --copy but found none: install wl-copy or xclip")
