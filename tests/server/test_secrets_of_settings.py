"""Secrets in settings appear in no output of `imagehost config`, no log, no error and no repr."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st

from imagehost_core.settings import SettingsError, redact_password, setting_paths, variable_name
from imagehost_core.settings.secrets import MASK
from imagehost_server.cli.main import main
from imagehost_server.settings import ServerSettings, load
from imagehost_server.testing import running

MARKER = "Xq7secretXq7"

VALUES = {
    "database": f"postgresql://user:{MARKER}@127.0.0.1:1/name?sslpassword={MARKER}&sslmode=disable",
    "metrics.token": MARKER * 2,
    "purge.url": f"http://127.0.0.1:1/purge?key={MARKER}",
    "purge.headers": f"Authorization: Bearer {MARKER}, X-Key: {MARKER}",
    "purge.body": f"key={MARKER}",
}
"""Allowed values with a secret, by the path of the setting."""

REJECTED = {
    "base_url": [
        f"https://user:{MARKER}@img.example/v1",
        f"user:{MARKER}@img.example/v1",
        f"https://a/v1?{MARKER}",
    ],
    "cdn_url": [f"https://{MARKER}@img.example/img", f"https://img.example/img#{MARKER}"],
    "storage.url": [f"s3://key:{MARKER}@bucket/prefix", f"s3://bucket?secret_access_key={MARKER}", MARKER],
    "database": [
        f"postgresql://user:%{MARKER}@host/name",
        f"postgresql://user:a/{MARKER}@host/name",
        f"postgresql://user:{MARKER}@host:port/name",
        f"postgresql://user:{MARKER}@host:70000/name",
        f"postgresql://user@host/name?passwort={MARKER}",
        f"mysql://user:{MARKER}@host/name",
    ],
    "metrics.token": [MARKER],
    "purge.url": [f"https://user:{MARKER}@cache.example/", f"https://cache.example/#{MARKER}"],
    "purge.headers": [MARKER, f"Authorization: Bearer\n{MARKER}"],
}
"""Values that are not allowed and have a secret."""

TOML = {
    "database": f'database = ["postgresql://user:{MARKER}@host/name"]',
    "base_url": f'base_url = ["https://user:{MARKER}@host/v1"]',
    "storage.url": f'[storage]\nurl = {{key = "{MARKER}"}}',
    "metrics.token": f'[metrics]\ntoken = ["{MARKER}"]',
    "purge.headers": f'[purge.headers]\nAuthorization = "{MARKER}"',
    "purge.url": f'[purge]\nurl = ["{MARKER}"]',
    "purge.body": f'[purge]\nbody = {{key = "{MARKER}"}}',
}
"""Settings files with a secret in a value of another type."""


def attributes(
    kind: type[attrs.AttrsInstance] = ServerSettings, prefix: str = ""
) -> Iterator[tuple[str, attrs.Attribute[object]]]:
    hints = get_type_hints(kind)
    for attribute in attrs.fields(kind):
        if isinstance(hints[attribute.name], type) and attrs.has(hints[attribute.name]):
            yield from attributes(hints[attribute.name], f"{prefix}{attribute.name}.")
        else:
            yield prefix + attribute.name, attribute


SECRET = {path for path, attribute in attributes() if MASK in attribute.metadata}


def variables(values: dict[str, str]) -> dict[str, str]:
    return {variable_name(path): value for path, value in values.items()}


def test_every_setting_that_can_have_a_secret_is_declared_and_tried() -> None:
    assert {*VALUES, *REJECTED} == SECRET
    assert {*VALUES, *TOML} >= SECRET - {"cdn_url"}
    suspicious = re.compile("token|password|secret|key|url|header|body|database")
    named = {path for path, _ in setting_paths(ServerSettings) if suspicious.search(path.rpartition(".")[2])}
    # Paths of files, the name of a header, and a time limit.
    harmless = {"server.tls_key", "admin.password_file", "purge.tag_header", "http.header_timeout_seconds"}
    harmless |= {path for path in named if path.startswith("http.")}
    assert named - harmless == SECRET


def test_config_hides_every_secret_and_shows_the_rest(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["config", "--data", str(tmp_path)], env=variables(VALUES))
    assert result.exit_code == 0, result.output
    assert MARKER not in result.output
    lines = result.output.splitlines()
    assert '# database = "postgresql://user:***@127.0.0.1:1/name?sslpassword=***&sslmode=disable"' in "".join(
        lines
    )
    assert '# token = "***"  # environment; with a secret' in lines
    assert '# headers = ["Authorization: ***", "X-Key: ***"]  # environment; with a secret' in lines
    assert '# url = "http://127.0.0.1:1/purge?***"  # environment; with a secret' in lines


def test_no_repr_of_settings_has_a_secret(tmp_path: Path) -> None:
    settings, resolved = load(tmp_path, {}, variables(VALUES))
    assert settings.metrics.token == VALUES["metrics.token"]
    assert MARKER not in f"{settings!r} {settings} {resolved!r}"


@pytest.mark.parametrize(
    ("path", "value"), [(path, value) for path, values in REJECTED.items() for value in values]
)
def test_config_rejects_what_serve_rejects_with_the_same_message_without_the_secret(
    tmp_path: Path, path: str, value: str
) -> None:
    results = [
        CliRunner().invoke(main, [command, "--data", str(tmp_path)], env=variables({path: value}))
        for command in ("config", "serve")
    ]
    messages = {result.stderr for result in results}
    assert [result.exit_code for result in results] == [1, 1]
    assert len(messages) == 1
    assert f" for {path.rpartition('.')[2]} but received " in messages.pop() or path == "metrics.token"
    assert all(MARKER not in result.output for result in results)


def test_config_rejects_a_certificate_that_serve_rejects(tmp_path: Path) -> None:
    files = {"server.tls_cert": str(tmp_path / "cert.pem"), "server.tls_key": str(tmp_path / "key.pem")}
    results = [
        CliRunner().invoke(main, [command, "--data", str(tmp_path)], env=variables(files))
        for command in ("config", "serve")
    ]
    assert [result.exit_code for result in results] == [1, 1]
    assert len({result.stderr for result in results}) == 1


@pytest.mark.parametrize("path", TOML)
def test_no_error_of_a_value_of_another_type_has_a_secret(tmp_path: Path, path: str) -> None:
    tmp_path.joinpath("imagehost.toml").write_text(TOML[path], encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {}, {})
    assert path.rpartition(".")[2] in str(caught.value)
    assert MARKER not in str(caught.value)


@pytest.mark.slow
def test_no_log_of_a_server_has_a_secret(tmp_path: Path) -> None:
    values = {path: value for path, value in VALUES.items() if path != "database"}
    with running(
        tmp_path / "data", variables={**variables(values), "IMAGEHOST_LOG_LEVEL": "debug"}
    ) as server:
        pass
    text = server.output + server.log.read_text(encoding="utf-8")
    assert "Serving" in text
    assert MARKER not in text


PASSWORDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=4, max_size=20)


@given(
    PASSWORDS,
    st.sampled_from(["host/name", "[::1]:5432/name", "a,b/name?sslmode=require", "/name?host=/tmp"]),
)
def test_no_part_of_a_password_of_a_database_is_shown(password: str, rest: str) -> None:
    assume(password not in f"postgresql://user:***@{rest}")
    shown = redact_password(f"postgresql://user:{password}@{rest}")
    assert shown == f"postgresql://user:***@{rest}"
