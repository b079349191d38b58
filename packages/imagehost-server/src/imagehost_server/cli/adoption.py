"""The command `imagehost adopt`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from imagehost_core import adopt
from imagehost_core.storage.layout import DataLayout
from imagehost_server.cli.archives import json_option
from imagehost_server.cli.common import cli_errors, counted, data_option, load_settings, require_owner


@click.command("adopt")
@data_option
@click.option("--force", is_flag=True, help="Adopt a database and an image store without a common image.")
@json_option
def adopt_command(data: Path, force: bool, as_json: bool) -> None:
    """Make DIR, its database and its image store one installation, whatever they were before.

    Use it if the host says that they have no record, or belong to different installations, and you know that
    they belong together; or to take back a move. Other hosts that use one of them collect nothing from then
    on, and must be restarted. If database and image store agree already, only the directory joins them.

    \b
    Examples:
      imagehost adopt --data /srv/imagehost
      imagehost adopt --data /srv/imagehost --force --json
    """  # noqa: D301 - the escape sequence is click's
    settings = load_settings(data)
    database = DataLayout(data).database
    require_owner(database if database.exists() else data)
    with cli_errors():
        adoption = adopt(data, settings=settings, force=force)
    if as_json:
        values = {
            "images": adoption.image_count,
            "missing": adoption.missing,
            "unrecorded": adoption.unrecorded,
        }
        record = adoption.record
        click.echo(json.dumps({"installation": record.id, "incarnation": record.incarnation, **values}))
        return
    click.echo(
        f"Adopted {data} as installation {adoption.record.id}: {counted(adoption.image_count, 'image')}"
    )
    if adoption.missing:
        click.echo(f"Without files: {counted(adoption.missing, 'image')}; `imagehost fsck` names them")
    if adoption.unrecorded:
        click.echo(
            f"Without a record: {counted(adoption.unrecorded, 'image')}; `imagehost gc --dry-run` names them"
        )
