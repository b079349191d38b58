"""The commands for webhooks and their deliveries."""

from __future__ import annotations

import click

from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.options import (
    Group,
    confirm_option,
    lists,
    or_unset,
    prints_record,
    switch_options,
)
from imagehost_client._cli.output import Column
from imagehost_client.client import Client
from imagehost_client.models import EventKind, Webhook, WebhookDelivery
from imagehost_client.pages import Pager

COLUMNS: tuple[Column[Webhook], ...] = (
    Column("id", lambda webhook: webhook.id),
    Column("state", lambda webhook: "active" if webhook.is_active else webhook.disabled_reason or "inactive"),
    Column("url", lambda webhook: webhook.url, is_flexible=True),
    Column("events", lambda webhook: ",".join(map(str, webhook.events)) or "all", is_flexible=True),
)
"""The columns of `webhooks ls`."""

DELIVERY_COLUMNS: tuple[Column[WebhookDelivery], ...] = (
    Column("id", lambda delivery: delivery.id),
    Column("event", lambda delivery: delivery.event),
    Column("status", lambda delivery: delivery.status),
    Column("attempts", lambda delivery: delivery.attempts),
)
"""The columns of `webhooks deliveries`."""

EVENT = click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(tuple(map(str, EventKind))),
    help="A kind of events; may be repeated.",
)


@click.group("webhooks", cls=Group)
def webhooks() -> None:
    """Manage webhooks."""


@webhooks.command("ls")
@lists(COLUMNS)
def list_webhooks(client: Client, *, per_page: int) -> Pager[Webhook]:
    """List webhooks."""
    return client.webhooks.list(per_page=per_page)


@webhooks.command("create")
@click.argument("url")
@click.option("--description", metavar="TEXT")
@EVENT
@pass_context
def create_webhook(
    context: CommandContext, *, url: str, description: str | None, events: tuple[EventKind, ...]
) -> None:
    """Create a webhook, and print its id and secret."""
    webhook = context.connect().webhooks.create(url, events=events or None, description=description)
    context.console.print(f"{webhook.id}\t{webhook.secret}")
    context.console.note("keep this secret: the host never shows it again")


@webhooks.command("show")
@click.argument("webhook", metavar="ID")
@prints_record
@pass_context
def show_webhook(context: CommandContext, *, webhook: str) -> None:
    """Print a webhook as JSON."""
    context.console.print_record(context.connect().webhooks.get(webhook))


@webhooks.command("update")
@click.argument("webhook", metavar="ID")
@click.option("--url", metavar="URL")
@switch_options("is_active", ("--active", "Send events."), ("--inactive", "Send no events."))
@click.option("--description", metavar="TEXT")
@EVENT
@prints_record
@pass_context
def update_webhook(
    context: CommandContext,
    *,
    webhook: str,
    url: str | None,
    is_active: bool | None,
    description: str | None,
    events: tuple[EventKind, ...],
) -> None:
    """Change a webhook, and print it."""
    record = context.connect().webhooks.update(
        webhook,
        url=or_unset(url),
        events=or_unset(events or None),
        description=or_unset(description),
        is_active=or_unset(is_active),
    )
    context.console.print_record(record)


@webhooks.command("rm")
@click.argument("webhook", metavar="ID")
@confirm_option
@pass_context
def delete_webhook(context: CommandContext, *, webhook: str, yes: bool) -> None:
    """Delete a webhook."""
    context.console.confirm(f"Delete webhook {webhook}?", is_confirmed=yes)
    context.console.print(context.connect().webhooks.delete(webhook).id)


@webhooks.command("test")
@click.argument("webhook", metavar="ID")
@prints_record
@pass_context
def test_webhook(context: CommandContext, *, webhook: str) -> None:
    """Send a test event."""
    context.console.print_record(context.connect().webhooks.test(webhook))


@webhooks.command("rotate")
@click.argument("webhook", metavar="ID")
@pass_context
def rotate_webhook(context: CommandContext, *, webhook: str) -> None:
    """Replace the signing secret, and print the new one."""
    secret = context.connect().webhooks.rotate_secret(webhook).secret
    context.console.print(secret)


@webhooks.command("deliveries")
@click.argument("webhook", metavar="ID")
@lists(DELIVERY_COLUMNS)
def list_deliveries(client: Client, *, per_page: int, webhook: str) -> Pager[WebhookDelivery]:
    """List the deliveries of a webhook."""
    return client.webhooks.deliveries(webhook, per_page=per_page)


@webhooks.command("retry")
@click.argument("webhook", metavar="ID")
@click.argument("delivery", metavar="DELIVERY")
@prints_record
@pass_context
def retry_delivery(context: CommandContext, *, webhook: str, delivery: str) -> None:
    """Send a delivery again."""
    context.console.print_record(context.connect().webhooks.retry(webhook, delivery))
