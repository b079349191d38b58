"""The commands that manage profiles: sign in, sign out, and show who is signed in."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

import click

from imagehost_client import _config
from imagehost_client._cli.accounts import read_secret
from imagehost_client._cli.connection import (
    PROFILE_VARIABLE,
    CommandContext,
    Connection,
    normalise_base_url,
    pass_context,
)
from imagehost_client._cli.errors import find_hint
from imagehost_client._cli.options import Command, Group
from imagehost_client._cli.output import Column
from imagehost_client._cli.profiles import Profile
from imagehost_client.client import Client
from imagehost_client.errors import ConfigurationError, ForbiddenError, UnauthorizedError

SESSION_PREFIX = "ihs_"
"""The prefix of the tokens of sessions; those of API keys have another."""


@click.command("login", cls=Command)
@click.argument("username", required=False)
@click.option("--with-token", is_flag=True, help="Use an API token, from a prompt or standard input.")
@click.option("--cdn-url", metavar="URL", help="Base URL of image delivery.  [default: /img]")
@click.option("--no-keyring", is_flag=True, help="Save the token in the file, not in the system's keyring.")
@click.option("--print-token", is_flag=True, help="Print the session's token for a script; save nothing.")
@pass_context
def login(
    context: CommandContext,
    *,
    username: str | None,
    with_token: bool,
    cdn_url: str | None,
    no_keyring: bool,
    print_token: bool,
) -> None:
    """Sign in, and save the host with the token as a profile.

    The password or the token is asked for, or read from standard input. The profile's name is that of the
    host, unless --profile names it, and it becomes the current profile.

    \b
    Examples:
      imagehost-client login admin --base-url https://images.example.com
      imagehost-client login --with-token --profile work < token.txt
    """  # noqa: D301 - the escape sequence is click's
    if with_token and (username is not None or print_token):
        raise click.UsageError("expected --with-token alone but received a name or --print-token too")
    base_url = _base_url(context)
    cdn_url = cdn_url or _cdn_url(context, base_url)
    if with_token:
        token = read_secret("Token").strip()
        client = context.open_client(base_url, token, cdn_url=cdn_url, allow_http=context.allow_http)
        account = _account_name(client)
    else:
        username = username or _prompt("Name", "NAME")
        client = context.open_client(base_url, "", cdn_url=cdn_url, allow_http=context.allow_http)
        session = client.sessions.create(username, read_secret("Password"))
        token, account = session.token, session.account.name
    if print_token:
        context.console.print(token)
        return
    profile = Profile(
        name=_profile_name(context, base_url),
        base_url=client.config.base_url,
        account=account,
        cdn_url=cdn_url,
        allow_http=context.allow_http,
    )
    saved = context.store.save(profile, token, use_keyring=not no_keyring)
    place = "the system's keyring" if saved.in_keyring else str(context.store.path)
    signed_in = f"signed in to {saved.base_url}" + (f" as {account}" if account else "")
    context.console.note(f"{signed_in}; profile {saved.name!r} has the token in {place}")
    for variable in (_config.BASE_URL_VARIABLE, _config.TOKEN_VARIABLE):
        if os.environ.get(variable):
            context.console.note(f"{variable} is set, and precedes the profile unless --profile names it")


@click.command("logout", cls=Command)
@click.option("--local", is_flag=True, help="Only delete the profile; the host is not asked.")
@pass_context
def logout(context: CommandContext, *, local: bool) -> None:
    """End the session, and delete the profile with its token.

    An API key that `login --with-token` has saved remains valid: `keys rm` revokes it.
    """
    connection = context.resolve()
    profile = connection.profile if connection.token_source.startswith("profile") else None
    if local and profile is None:
        raise ConfigurationError("expected a profile to delete but there is none for this host")
    is_session = _is_session(connection)
    if not local and (is_session or profile is None):
        try:
            context.connect().sessions.delete()
        except UnauthorizedError:
            if profile is None:
                raise  # the session of a profile has ended already
    if profile is not None:
        context.store.delete(profile.name)
    if profile is not None and not is_session:
        context.console.note(f"profile {profile.name!r} is deleted; its API key remains valid")
    elif local and profile is not None:
        context.console.note(f"profile {profile.name!r} is deleted; its session remains valid")
    else:
        context.console.note("signed out")


@click.command("whoami", cls=Command)
@pass_context
def whoami(context: CommandContext) -> None:
    """Print the account, the host and the token's source.

    The host is asked, so that a token that is not valid any more is noticed.
    """
    client = context.connect()
    connection = context.resolve()
    name = _account_name(client) or "(the token may not read its account)"
    context.console.print(f"{name}\t{client.config.base_url}\t{connection.token_source}")


@click.command("config", cls=Command)
@pass_context
def show_config(context: CommandContext) -> None:
    """Print the settings and their sources.

    Of the token only the first characters are printed.
    """
    connection, console = context.resolve(), context.console
    hint = connection.token.hint() if connection.token else "none"
    if connection.base_url:
        allow_http = context.allow_http or connection.allow_http
        resolved = _config.resolve(connection.base_url, "", cdn_url=connection.cdn_url, allow_http=allow_http)
        console.print(f"base_url\t{resolved.base_url}\t{connection.base_url_source}")
        console.print(f"cdn_url\t{resolved.cdn_url}\t{connection.cdn_url_source}")
    else:
        console.print("base_url\tnone\tnone")
    console.print(f"token\t{hint}\t{connection.token_source}")
    console.print(f"profiles\t{context.store.path}\t{'file' if context.store.path.exists() else 'none'}")
    if not connection.base_url:
        console.note(find_hint(ConfigurationError(), connection) or "")


@click.group("profiles", cls=Group)
def profiles() -> None:
    """List and choose the saved profiles.

    `login` saves a profile, and `logout` deletes it.
    """


@profiles.command("ls")
@pass_context
def list_profiles(context: CommandContext) -> None:
    """List the profiles; the current one is marked."""
    saved = context.store.load()
    columns: tuple[Column[Profile], ...] = (
        Column("name", lambda profile: profile.name),
        Column("account", lambda profile: profile.account),
        Column("base URL", lambda profile: profile.base_url, is_flexible=True),
        Column("token", lambda profile: "keyring" if profile.in_keyring else "file"),
        Column("current", lambda profile: "current" if profile.name == saved.current else ""),
    )
    records = [profile for _, profile in sorted(saved.profiles.items())]
    context.console.print_list(records, columns, limit=None, as_json=False)


@profiles.command("use")
@click.argument("name")
@pass_context
def use_profile(context: CommandContext, *, name: str) -> None:
    """Make a profile the current one."""
    profile = context.store.use(name)
    context.console.note(f"the current profile is {name!r}: {profile.base_url}")


def _base_url(context: CommandContext) -> str:
    """Return the base URL of a sign-in: of a flag, a profile or a variable, or asked for."""
    saved = context.store.load()
    if context.base_url:
        return normalise_base_url(context.base_url)
    name = context.profile or os.environ.get(PROFILE_VARIABLE) or saved.current
    variable = os.environ.get(_config.BASE_URL_VARIABLE, "")
    if variable and not context.profile:
        return normalise_base_url(variable)
    if name is not None and name in saved.profiles:
        profile = saved.profiles[name]
        context.allow_http = context.allow_http or profile.allow_http
        return profile.base_url
    return normalise_base_url(variable or _prompt("URL of the host", "--base-url"))


def _cdn_url(context: CommandContext, base_url: str) -> str | None:
    """Return the base URL of image delivery of a saved profile of this host, or of the variable."""
    name = context.profile or context.store.load().current
    profile = context.store.load().profiles.get(name or "")
    if profile is not None and profile.base_url == base_url:
        return profile.cdn_url
    is_variable = os.environ.get(_config.BASE_URL_VARIABLE, "").rstrip("/") == base_url.rstrip("/")
    return os.environ.get(_config.CDN_URL_VARIABLE) if is_variable else None


def _profile_name(context: CommandContext, base_url: str) -> str:
    """Return the name of the profile: the user's choice, the current one's on this host, or the host's."""
    name = context.profile or os.environ.get(PROFILE_VARIABLE)
    if name:
        return name
    saved = context.store.load()
    current = saved.profiles.get(saved.current or "")
    return current.name if current is not None and current.base_url == base_url else urlsplit(base_url).netloc


def _prompt(text: str, option: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(f"expected {option} but received none, and there is no terminal to ask")
    answer: str = click.prompt(text, err=True)
    return answer


def _account_name(client: Client) -> str:
    """Return the name of the token's account; empty if the token is valid and may not read it."""
    try:
        return client.account().account.name
    except ForbiddenError:
        return ""


def _is_session(connection: Connection) -> bool:
    return connection.token is not None and connection.token.get_secret_value().startswith(SESSION_PREFIX)
