"""Days and times on pages: in the time zone of the browser, which a cookie names, or said to be in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from attrs import frozen

from imagehost_server.web.catalog import Texts

ZONE_COOKIE = "imagehost-zone"
"""The name of the cookie that `static/account.js` sets."""

_NAME = re.compile(r"[A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*", re.ASCII)


def find_zone(name: str | None) -> tzinfo:
    """Return a time zone by its name in the IANA database, or UTC if there is none with it."""
    try:
        return ZoneInfo(name) if name and _NAME.fullmatch(name) else UTC
    except (KeyError, OSError, ValueError):
        return UTC


@frozen
class LocalTime:
    """The texts of times in a time zone.

    Attributes:
        zone: The time zone; `UTC` if the browser has named none.
        texts: The texts in the language of the page.
    """

    zone: tzinfo
    texts: Texts

    @property
    def suffix(self) -> str:
        """What follows a day or time that is not in the time zone of the browser."""
        return " UTC" if self.zone is UTC else ""

    def month(self, moment: datetime) -> str:
        """Return the month of a time, such as `November 2026`."""
        local = moment.astimezone(self.zone)
        return f"{self.texts(f'months.{local.month}')} {local.year}{self.suffix}"

    def day(self, moment: datetime) -> str:
        """Return the day of a time, such as `2026-11-22`."""
        return self._format(moment, "%Y-%m-%d")

    def minute(self, moment: datetime) -> str:
        """Return a time, such as `2026-11-22 14:30`."""
        return self._format(moment, "%Y-%m-%d %H:%M")

    def second(self, moment: datetime) -> str:
        """Return a time, such as `2026-11-22 14:30:59`."""
        return self._format(moment, "%Y-%m-%d %H:%M:%S")

    def _format(self, moment: datetime, form: str) -> str:
        return moment.astimezone(self.zone).strftime(form) + self.suffix
