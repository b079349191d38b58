"""Settings as TOML, for `imagehost.toml`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby

from imagehost_core.settings import ResolvedSetting


def format_settings(resolved: Iterable[ResolvedSetting]) -> str:
    """Return settings as a TOML document, each with its source as a comment.

    TOML has no null: a setting without a value is only a comment. So is one with a secret, without it.
    """
    # Top-level keys come before the first table, where TOML requires them.
    by_section = sorted(resolved, key=lambda setting: _section(setting) != "")
    lines: list[str] = []
    for section, settings in groupby(by_section, _section):
        if section:
            lines += ["", f"[{section}]"]
        for setting in settings:
            name = setting.path.rpartition(".")[2]
            line = f"{name} = {_toml_value(setting.shown)}  # {setting.origin}"
            if setting.value is None:
                line = f"# {name} is not set"
            elif setting.shown != setting.value:
                line = f"# {line}; with a secret"
            lines.append(line)
    return "\n".join(lines)


def _section(setting: ResolvedSetting) -> str:
    return setting.path.rpartition(".")[0]


def _toml_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but TOML also requires one for DEL.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
