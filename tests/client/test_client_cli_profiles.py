"""The command line: profiles, and where the URL and the token of a command come from."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import Run, end_sessions, is_valid, use_no_keyring, without_delays

from imagehost_client import Client
from imagehost_client._cli.connection import CommandContext, normalise_base_url, resolve_connection
from imagehost_client._cli.profiles import Profile, Profiles, ProfileStore
from imagehost_client._redact import Secret
from imagehost_client.errors import ConfigurationError
from imagehost_client.testing import FakeImageHost

URL = "https://images.example.com/v1"
HOST = "imagehost.test"
"""The name of the host in memory, and thus of its profile."""


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring in memory, which can be locked."""

    priority = 5

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise keyring.errors.KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.is_locked:
            raise keyring.errors.KeyringLocked("locked")
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.entries:
            raise keyring.errors.PasswordDeleteError("missing")
        del self.entries[service, username]


@pytest.fixture
def system_keyring(command: CommandContext) -> MemoryKeyring:
    """A keyring of the system, which other tests do not have."""
    backend = MemoryKeyring()
    keyring.set_keyring(backend)
    return backend


@pytest.fixture
def _without_variables(command: CommandContext, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IMAGEHOST_BASE_URL", "IMAGEHOST_TOKEN", "IMAGEHOST_CDN_URL"):
        monkeypatch.delenv(name)


def log_in(run: Run, host: FakeImageHost, *options: str) -> tuple[int, list[str], str]:
    return run(
        "login", "admin", "--base-url", host.base_url, "--cdn-url", host.cdn_url, *options, stdin="secret\n"
    )


@pytest.mark.usefixtures("_without_variables")
def test_login_saves_a_profile_that_later_commands_use(
    run: Run, host: FakeImageHost, command: CommandContext
) -> None:
    status, lines, messages = log_in(run, host)
    profile = command.store.load().get(HOST)
    assert (status, lines, profile.base_url, profile.account) == (0, [], host.base_url, "admin")
    assert profile.token is not None
    assert is_valid(host, profile.token.get_secret_value())
    assert profile.token.get_secret_value() not in messages
    assert run("whoami")[1] == [f"admin\t{host.base_url}\tprofile imagehost.test"]
    assert run("url", "0" * 16)[1] == [f"{host.cdn_url}/{'0' * 16}"]


@pytest.mark.usefixtures("_without_variables")
@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_the_file_of_profiles_is_readable_by_its_owner_only(
    run: Run, host: FakeImageHost, command: CommandContext
) -> None:
    mask = os.umask(0)
    try:
        log_in(run, host)
        log_in(run, host, "--profile", "other")
    finally:
        os.umask(mask)
    path = command.store.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["profiles.json"]
    assert run("whoami")[2] == ""
    path.chmod(0o644)
    assert "chmod 600" in run("whoami")[2]


@pytest.mark.usefixtures("_without_variables")
def test_a_wrong_password_saves_nothing(run: Run, host: FakeImageHost, command: CommandContext) -> None:
    status, lines, _ = run("login", "admin", "--base-url", host.base_url, stdin="wrong\n")
    assert (status, lines, command.store.path.exists()) == (3, [], False)


@pytest.mark.usefixtures("_without_variables")
def test_login_asks_for_the_host_the_name_and_the_password_on_a_terminal(
    run_on_terminal: Run, run: Run, host: FakeImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter([HOST, "admin"])
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(replies))
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: "secret")
    status, lines, messages = run_on_terminal("login")
    assert (status, lines) == (0, []), messages
    assert run("login")[0] == 2


@pytest.mark.usefixtures("_without_variables")
def test_a_token_is_read_from_standard_input_and_checked(
    run: Run, host: FakeImageHost, command: CommandContext
) -> None:
    with host.client() as client:
        token = client.keys.create("ci", scopes=["images:write"]).token
    arguments = ("login", "--with-token", "--profile", "ci", "--base-url", host.base_url)
    assert run(*arguments, stdin="ihk_wrong\n")[0] == 3
    assert run(*arguments, stdin="\n")[0] == 2
    assert run(*arguments, "admin", stdin=token)[0] == 2
    assert command.store.load().profiles == {}
    assert run(*arguments, stdin=f"{token}\n")[0] == 0
    assert "may not read" in run("whoami")[1][0]
    status, _, messages = run("logout")
    assert (status, "remains valid" in messages) == (0, True)
    assert (is_valid(host, token), command.store.load().profiles) == (True, {})


def test_login_can_print_the_token_of_a_session_instead(
    run: Run, host: FakeImageHost, command: CommandContext
) -> None:
    status, lines, _ = log_in(run, host, "--print-token")
    assert (status, is_valid(host, lines[0]), command.store.path.exists()) == (0, True, False)


def test_login_says_that_variables_precede_the_profile(run: Run, host: FakeImageHost) -> None:
    messages = log_in(run, host)[2]
    assert "IMAGEHOST_TOKEN is set" in messages
    assert run("whoami")[1] == [f"admin\t{host.base_url}\tIMAGEHOST_TOKEN"]
    assert run("whoami", "--profile", HOST)[1][0].endswith("\tprofile imagehost.test")


@pytest.mark.usefixtures("_without_variables")
def test_several_profiles_are_listed_chosen_and_deleted(
    run: Run, host: FakeImageHost, command: CommandContext
) -> None:
    log_in(run, host, "--profile", "home")
    log_in(run, host, "--profile", "work")
    assert run("profiles", "ls")[1] == [
        f"home\tadmin\t{host.base_url}\tfile\t",
        f"work\tadmin\t{host.base_url}\tfile\tcurrent",
    ]
    assert run("profiles", "use", "home")[0] == 0
    assert run("whoami")[1][0].endswith("profile home")
    assert run("profiles", "use", "absent")[0] == 2
    tokens = {
        name: profile.token.get_secret_value()
        for name, profile in command.store.load().profiles.items()
        if profile.token is not None
    }
    assert run("logout") == (0, [], "imagehost-client: signed out\n")
    assert (is_valid(host, tokens["home"]), is_valid(host, tokens["work"])) == (False, True)
    assert run("ls")[0] == 2
    assert run("logout", "--profile", "work", "--local")[0] == 0
    assert is_valid(host, tokens["work"])
    assert run("logout", "--local")[0] == 2


@pytest.mark.usefixtures("_without_variables")
def test_logout_deletes_the_profile_of_a_session_that_has_ended(
    run: Run, host: FakeImageHost, command: CommandContext
) -> None:
    log_in(run, host)
    end_sessions(host)
    status, _, messages = run("ls")
    assert (status, "login --profile imagehost.test" in messages) == (3, True)
    assert run("logout")[0] == 0
    assert command.store.load().profiles == {}


@pytest.mark.usefixtures("_without_variables")
def test_tokens_are_in_the_keyring_where_there_is_one(
    run: Run, host: FakeImageHost, command: CommandContext, system_keyring: MemoryKeyring
) -> None:
    messages = log_in(run, host)[2]
    (entry,) = system_keyring.entries
    assert "keyring" in messages
    assert system_keyring.entries[entry] not in command.store.path.read_text("utf-8")
    assert run("profiles", "ls")[1][0].endswith("\tkeyring\tcurrent")
    assert run("whoami")[0] == 0
    system_keyring.is_locked = True
    status, _, messages = run("whoami")
    assert (status, "keyring" in messages) == (2, True)
    system_keyring.is_locked = False
    assert run("logout")[0] == 0
    assert system_keyring.entries == {}


@pytest.mark.usefixtures("_without_variables")
def test_a_token_is_in_the_file_if_the_keyring_refuses_or_must_not_be_used(
    run: Run, host: FakeImageHost, command: CommandContext, system_keyring: MemoryKeyring
) -> None:
    log_in(run, host, "--no-keyring")
    assert command.store.load().get(HOST).token is not None
    system_keyring.is_locked = True
    log_in(run, host)
    assert command.store.load().get(HOST).token is not None
    system_keyring.is_locked = False
    log_in(run, host)
    assert command.store.load().get(HOST).in_keyring
    use_no_keyring()
    status, _, messages = run("whoami")
    assert (status, "found none" in messages) == (2, True)
    system_keyring.entries.clear()
    keyring.set_keyring(system_keyring)
    assert run("whoami")[0] == 3
    log_in(run, host, "--no-keyring")
    assert run("whoami")[0] == 0


@pytest.mark.usefixtures("_without_variables")
def test_commands_work_without_the_package_keyring(
    run: Run, host: FakeImageHost, command: CommandContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagehost_client._cli.profiles.find_spec", lambda _: None)
    log_in(run, host)
    assert (run("whoami")[0], command.store.load().get(HOST).in_keyring) == (0, False)


SAVED = Profiles(
    profiles={
        "home": Profile(
            name="home", base_url=URL, token=Secret("home-token"), cdn_url="https://cdn.example/i"
        ),
        "work": Profile(name="work", base_url="https://work.example/v1", token=Secret("work-token")),
    },
    current="home",
)


@pytest.mark.parametrize(
    ("flags", "variables", "expected"),
    [
        ({}, {}, (URL, "profile home", "home-token", "https://cdn.example/i")),
        ({"profile": "work"}, {}, ("https://work.example/v1", "profile work", "work-token", None)),
        ({}, {"PROFILE": "work"}, ("https://work.example/v1", "profile work", "work-token", None)),
        ({}, {"BASE_URL": "https://v/v1"}, ("https://v/v1", "IMAGEHOST_BASE_URL", None, None)),
        (
            {},
            {"BASE_URL": "https://v/v1", "TOKEN": "t", "CDN_URL": "https://c/i"},
            ("https://v/v1", "IMAGEHOST_BASE_URL", "t", "https://c/i"),
        ),
        ({}, {"TOKEN": "t"}, (URL, "profile home", "t", "https://cdn.example/i")),
        (
            {"profile": "work"},
            {"TOKEN": "t"},
            ("https://work.example/v1", "profile work", "work-token", None),
        ),
        (
            {"profile": "work"},
            {"BASE_URL": "https://v/v1", "CDN_URL": "https://c/i"},
            ("https://work.example/v1", "profile work", "work-token", None),
        ),
        ({"base_url": "https://f/v1"}, {}, ("https://f/v1", "--base-url", None, None)),
        ({"base_url": "https://f/v1", "profile": "work"}, {}, ("https://f/v1", "--base-url", None, None)),
        ({"base_url": URL}, {}, (URL, "--base-url", "home-token", None)),
        ({}, {"BASE_URL": URL + "/"}, (URL + "/", "IMAGEHOST_BASE_URL", "home-token", None)),
    ],
)
def test_flags_precede_variables_which_precede_the_current_profile(
    flags: dict[str, str], variables: dict[str, str], expected: tuple[str, str, str | None, str | None]
) -> None:
    environ = {f"IMAGEHOST_{name}": value for name, value in variables.items()}
    found = resolve_connection(SAVED, **flags, environ=environ)
    url, source, token, cdn_url = expected
    assert (found.base_url, found.base_url_source) == (url, source)
    assert (found.token and found.token.get_secret_value()) == token
    assert found.cdn_url == (cdn_url or f"https://{url.split('/')[2]}/img")


@given(
    base_url=st.none() | st.sampled_from([URL, "https://work.example/v1", "https://f/v1"]),
    profile=st.none() | st.sampled_from(["home", "work"]),
    variables=st.fixed_dictionaries(
        {},
        optional={
            "IMAGEHOST_BASE_URL": st.sampled_from([URL, "https://work.example/v1", "https://v/v1"]),
            "IMAGEHOST_PROFILE": st.sampled_from(["home", "work"]),
        },
    ),
)
def test_the_token_of_a_profile_is_sent_to_its_own_host_only(
    base_url: str | None, profile: str | None, variables: dict[str, str]
) -> None:
    found = resolve_connection(SAVED, base_url=base_url, profile=profile, environ=variables)
    if found.token is not None:
        owner = {"home-token": "home", "work-token": "work"}[found.token.get_secret_value()]
        assert SAVED.profiles[owner].base_url == found.base_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("images.example.com", URL),
        ("https://images.example.com", URL),
        ("https://images.example.com/v1/", URL),
        ("images.example.com/api/v1", "https://images.example.com/api/v1"),
        ("www.example.com/photos/", "https://www.example.com/photos/v1"),
        ("localhost:8000", "http://localhost:8000/v1"),
        ("127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("http://images.example.com", "http://images.example.com/v1"),
    ],
)
def test_what_is_missing_of_a_base_url_is_added(text: str, url: str) -> None:
    assert normalise_base_url(text) == url


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "profiles": {"a": {}}}'])
def test_a_malformed_file_of_profiles_is_reported(text: str, tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles.json")
    store.path.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match="profiles of format 1"):
        store.load()


def test_a_profile_with_plain_http_remembers_that_it_is_allowed(
    run: Run, command: CommandContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeImageHost(base_url="http://nas.example/v1", cdn_url="http://nas.example/img")
    command.create_client = lambda **options: without_delays(Client(**options, transport=host))
    for name in ("IMAGEHOST_BASE_URL", "IMAGEHOST_TOKEN", "IMAGEHOST_CDN_URL"):
        monkeypatch.delenv(name)
    arguments = ("login", "admin", "--base-url", "http://nas.example")
    assert run(*arguments, stdin="secret\n")[0] == 2
    assert run(*arguments, "--allow-http", stdin="secret\n")[0] == 0
    assert run("ls")[0] == 0
    assert run("config")[0] == 0
    assert run("login", "admin", stdin="secret\n")[0] == 0


def test_a_symbolic_link_to_the_file_of_profiles_remains(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    store = ProfileStore(tmp_path / "link.json")
    store.save(Profile(name="a", base_url=URL), "t", use_keyring=False)
    assert store.path.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text("utf-8"))["current"] == "a"


def test_config_prints_settings_with_their_sources_and_without_the_token(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: CommandContext
) -> None:
    path = command.store.path
    monkeypatch.setenv("IMAGEHOST_BASE_URL", "https://h/v1")
    monkeypatch.setenv("IMAGEHOST_TOKEN", "ihk_0123456789abcdefghijkl")
    monkeypatch.delenv("IMAGEHOST_CDN_URL")
    assert run("config")[:2] == (
        0,
        [
            "base_url\thttps://h/v1\tIMAGEHOST_BASE_URL",
            "cdn_url\thttps://h/img\tbase_url",
            "token\tihk_01…\tIMAGEHOST_TOKEN",
            f"profiles\t{path}\tnone",
        ],
    )
    monkeypatch.delenv("IMAGEHOST_TOKEN")
    monkeypatch.setenv("IMAGEHOST_CDN_URL", "https://c/img")
    assert run("--base-url", "https://g/v1", "config")[1][:3] == [
        "base_url\thttps://g/v1\t--base-url",
        "cdn_url\thttps://c/img\tIMAGEHOST_CDN_URL",
        "token\tnone\tnone",
    ]


def test_config_without_a_host_says_how_to_set_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IMAGEHOST_BASE_URL", "IMAGEHOST_TOKEN", "IMAGEHOST_CDN_URL"):
        monkeypatch.delenv(name)
    status, lines, messages = run("config")
    assert (status, lines[:2]) == (0, ["base_url\tnone\tnone", "token\tnone\tnone"])
    assert "imagehost-client login" in messages


def test_the_default_file_is_in_the_directory_of_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = ProfileStore().path
    assert path.parts[-2:] == ("imagehost-client", "profiles.json")
    assert sys.platform != "linux" or path.is_relative_to(tmp_path)
