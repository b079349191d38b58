"""The command `imagehost check`: what this machine can and cannot do for a host."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import attrs
import click
from attrs import evolve

from imagehost_core import ImageHost, ImageHostError, utc_now
from imagehost_core.installation import FORMAT, parse_record
from imagehost_core.settings import FOLDER, SQLITE, redact_password
from imagehost_core.storage.layout import DataLayout
from imagehost_server.cli.archives import json_option
from imagehost_server.cli.check import Check, State
from imagehost_server.cli.common import data_option, open_host
from imagehost_server.cli.site_checks import check_site, parse_site
from imagehost_server.web.catalog import texts_of
from imagehost_server.web.presentation import size_text

MAX_CLOCK_SECONDS = 5.0
"""The largest difference between the clock of this machine and that of the database server."""
SANDBOX = {"landlock": "5.13", "seccomp": "3.5"}
"""The measures of the sandbox that some systems lack, with the first version of Linux that has each."""


@click.command()
@data_option
@click.option("--url", metavar="URL", help="Look at the site too, from outside like a client.")
@click.option("--account", metavar="NAME", help="With --url: slowly upload an image as NAME, and delete it.")
@json_option
@click.pass_context
def check(context: click.Context, data: Path, url: str | None, account: str | None, as_json: bool) -> None:
    """Print what this machine can do for the host: data directory, disk, database, image store, workers.

    It may run beside the server. Data of an earlier version are not upgraded, but named. With --url it prints
    too what reaches the host through a proxy; with --account, which takes about a minute more, whether a slow
    upload does, and whether a deleted image is gone from its caches.

    \b
    Examples:
      imagehost check --data /srv/imagehost
      imagehost check --data /srv/imagehost --url https://images.example.com
      imagehost check --data /srv/imagehost --url https://images.example.com --account admin

    \b
    The exit status is:
      0  the host can be served, perhaps with warnings
      1  something failed
    """  # noqa: D301 - the escape sequence is click's
    site = None if url is None else parse_site(url)
    if account is not None and site is None:
        raise click.UsageError("expected --url for --account")
    checks = [*_check_data(data)]
    if site is not None and account is not None:
        with open_host(data, recover=False) as host:
            session = host.sessions.create(owner := host.accounts.get(account))
            try:
                checks += check_site(evolve(site, token=session.token))
            finally:
                host.sessions.delete(session, owner=owner)
    elif site is not None:
        checks += check_site(site)
    if as_json:
        click.echo(json.dumps({"checks": [attrs.asdict(each) for each in checks]}))
    else:
        width = max(len(each.name) for each in checks)
        for each in checks:
            advice = f"\n{'':{width}}           {each.advice}" if each.advice else ""
            click.echo(f"{each.name:{width}}  {each.state:7}  {each.found}{advice}")
    context.exit(int(any(each.state is State.FAILED for each in checks)))


def _check_data(data: Path) -> Iterator[Check]:
    """Yield what was found in a data directory; one line if it cannot be opened or is older."""
    try:
        file = DataLayout(data).record
        if file.exists() and (found := parse_record(file.read_bytes(), file).format) < FORMAT:
            advice = "`imagehost upgrade` upgrades them; make a backup before"
            yield Check("data", State.FAILED, f"format {found}; this version has format {FORMAT}", advice)
            return
        with open_host(data, recover=False) as host:
            yield from check_host(host)
    except (click.ClickException, ImageHostError, OSError) as error:
        found_error = error.message if isinstance(error, click.ClickException) else str(error)
        yield Check("host", State.FAILED, found_error, "the message names what to change")


def check_host(host: ImageHost) -> Iterator[Check]:
    """Yield what was found, for each part of a host."""
    yield _directory(host.path)
    yield _disk(host)
    for name, verify in host.maintenance.readiness_checks.items():
        yield _responds(host, name, verify)
    yield from _sandbox(host)
    yield from _native_modules(host)
    yield check_clock(host.now(), utc_now())
    yield Check("time zone", State.OK, f"{time.strftime('%Z %z')}; the log and the API have UTC")


def _directory(path: Path) -> Check:
    mode = path.stat().st_mode & 0o777
    if sys.platform != "win32" and mode & 0o077:
        found = f"{path} can be entered by others (mode {mode:o})"
        return Check("data directory", State.WARNING, found, f"chmod 700 {path}")
    return Check("data directory", State.OK, str(path))


def _disk(host: ImageHost) -> Check:
    statistics = host.maintenance.statistics()
    texts = texts_of("en")
    free = size_text(statistics.disk_free_bytes, texts)
    total = size_text(statistics.disk_bytes, texts)
    if not host.maintenance.accepts_uploads():
        least = size_text(host.settings.storage.min_free_bytes, texts)
        advice = f"free space: below {least} (IMAGEHOST_STORAGE_MIN_FREE_BYTES) uploads get 507"
        return Check("disk", State.FAILED, f"{free} of {total} free", advice)
    return Check("disk", State.OK, f"{free} of {total} free")


def _responds(host: ImageHost, name: str, verify: Callable[[], object]) -> Check:
    database, store = host.settings.database, host.settings.storage.url
    kinds = {
        "database": "SQLite" if database == SQLITE else redact_password(database),
        "storage": "in the data directory" if store == FOLDER else store,
        "data directory": "can be written",
        "image workers": "start",
    }
    label = {"storage": "image store", "data directory": "files"}.get(name, name)
    started = time.monotonic()
    try:
        verify()
    except Exception as error:
        return Check(label, State.FAILED, f"{kinds[name]}: {error}", "the message names what to change")
    return Check(label, State.OK, f"{kinds[name]} ({1000 * (time.monotonic() - started):.0f} ms)")


def _sandbox(host: ImageHost) -> Iterator[Check]:
    try:
        status = host.maintenance.sandbox_status()
    except Exception as error:
        yield Check("sandbox", State.FAILED, str(error), "the log has the reason")
        return
    for name, version in SANDBOX.items():
        if name in status.applied:
            yield Check(name, State.OK, "applied to image workers")
        else:
            reason = status.unavailable.get(name, "not supported by this system")
            advice = f"other limits hold; needs Linux {version}, in a container a profile that allows it"
            yield Check(name, State.WARNING, reason, advice)


def _native_modules(host: ImageHost) -> Iterator[Check]:
    for name, is_built in host.maintenance.native_modules().items():
        if is_built:
            yield Check(name, State.OK, "native module")
        else:
            advice = "install again with a compiler: `apt-get install gcc python3-dev`"
            yield Check(name, State.WARNING, "no native module: slower", advice)


def check_clock(database: datetime, system: datetime) -> Check:
    """Compare the clock of a host, which is that of a database server, with the system's."""
    seconds = abs((database - system).total_seconds())
    if seconds > MAX_CLOCK_SECONDS:
        found = f"{seconds:.0f} seconds from that of the database server"
        return Check("clock", State.WARNING, found, "synchronise both: timedatectl set-ntp true")
    return Check("clock", State.OK, f"{system:%Y-%m-%dT%H:%M:%SZ}")
