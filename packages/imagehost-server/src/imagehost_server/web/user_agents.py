"""The names of browsers and systems in `User-Agent`, for people who look for a session of theirs."""

from __future__ import annotations

from collections.abc import Iterable

BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("imagehost", "imagehost-client"),
    ("curl/", "curl"),
)
"""What names a browser, and its name: the first that occurs counts, as most also name others."""

SYSTEMS = (
    ("Windows", "Windows"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
"""What names a system, and its name."""


def describe_user_agent(user_agent: str) -> str:
    """Return a browser and its system, such as `Firefox, Windows`; or else the first word."""
    names = [name for name in (_find(user_agent, BROWSERS), _find(user_agent, SYSTEMS)) if name]
    return ", ".join(names) or user_agent.partition(" ")[0] or "–"


def _find(user_agent: str, names: Iterable[tuple[str, str]]) -> str:
    return next((name for part, name in names if part in user_agent), "")
