"""The months of a list in the order of time: a page of the list can begin at each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from attrs import frozen

from imagehost_core import to_rfc3339
from imagehost_core.errors import BadRequestError, FieldError, quote_value
from imagehost_core.lists import ImageSort
from imagehost_core.models import Image, Page
from imagehost_server.web.request import WebRequest

MONTH = "month"
"""The query parameter of a page: the month at which it begins, such as `2026-11`."""

BOUNDS = {ImageSort.NEWEST.value: "created_before", ImageSort.OLDEST.value: "created_after"}
"""The filter of the API that begins a list at a time, by the orders that have months."""

_MONTH = re.compile(r"(19[7-9]\d|[2-8]\d{3})-(0[1-9]|1[0-2])", re.ASCII)


@frozen(order=True)
class Month:
    """A month of a time zone.

    Attributes:
        year: The year, 1970–8999.
        month: The month, 1–12.
    """

    year: int
    month: int

    @classmethod
    def of(cls, moment: datetime, zone: tzinfo) -> Month:
        """Return the month of a time."""
        local = moment.astimezone(zone)
        return cls(local.year, local.month)

    @classmethod
    def parse(cls, text: str) -> Month:
        """Return a month by its text.

        Raises:
            BadRequestError: It is none, such as `2026-11`.
        """
        match = _MONTH.fullmatch(text)
        if match is None:
            raise BadRequestError(errors=[FieldError(MONTH, "a month such as 2026-11", quote_value(text))])
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"

    def begin(self, zone: tzinfo) -> datetime:
        """Return its first moment, in UTC."""
        return datetime(self.year, self.month, 1, tzinfo=zone).astimezone(UTC)

    def end(self, zone: tzinfo) -> datetime:
        """Return the first moment of the next month, in UTC."""
        return Month(self.year + self.month // 12, self.month % 12 + 1).begin(zone)


def begin_at(month: Month, zone: tzinfo, filters: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of a list that begins at a month, or those of the whole list in another order."""
    name = BOUNDS.get(filters.get("sort") or ImageSort.NEWEST.value)
    if name is None:
        return dict(filters)
    if name == "created_before":
        bound = to_rfc3339(month.end(zone))
        nearest = min
    else:
        bound = to_rfc3339(month.begin(zone) - timedelta(microseconds=1))
        nearest = max
    # These texts sort as the times do.
    return {**filters, name: nearest(bound, filters.get(name, bound))}


@frozen
class Place:
    """The place in a list at which its page begins.

    Attributes:
        month: The month; `None`: the first.
        cursor: The cursor, which belongs to the list that begins at the month; empty: its beginning.
        filters: The filters, the order and the cursor of the API.
    """

    month: Month | None
    cursor: str
    filters: dict[str, str]

    @property
    def link(self) -> dict[str, str]:
        """The query parameters of pages that go on from the same month."""
        return {} if self.month is None else {MONTH: str(self.month)}


def read_place(request: WebRequest, filters: Mapping[str, str]) -> Place:
    """Return the place that the query of a page names, in a list with filters and an order of the API.

    Raises:
        BadRequestError: The month is none.
    """
    text = request.query_params.get(MONTH)
    cursor = request.query_params.get("cursor", "")
    month = Month.parse(text) if text else None
    listed = begin_at(month, request.zone, filters) if month else filters
    return Place(month, cursor, {**listed, **({"cursor": cursor} if cursor else {})})


@frozen
class Timeline:
    """The months of a list, as its page links to them: all of one year, and one of each other year.

    Attributes:
        years: The years with their first months, in the order of the list.
        months: The months of the year that the page is in.
        current: The month that the page begins with.
        last: The last month of the list.
        total: The number of images of the list; `None`: unknown.
    """

    years: list[Month]
    months: list[Month]
    current: Month
    last: Month
    total: int | None


def read_timeline(
    read: Callable[..., Page[Image]], filters: Mapping[str, Any], zone: tzinfo, month: Month | None
) -> Timeline | None:
    """Return the months of a list, by its first and its last image; `None` if it is within one month.

    Args:
        read: Returns a page of the list, by the keywords of the API.
        filters: The filters and the order of the list.
        zone: The time zone of the months.
        month: The month that the page begins at; `None`: the first.
    """
    order = filters.get("sort") or ImageSort.NEWEST.value
    if order not in BOUNDS:
        return None
    sorts = (ImageSort.NEWEST.value, ImageSort.OLDEST.value)
    ends = [read(**{**filters, "sort": sort}, per_page=1) for sort in sorts]
    if not all(ends):
        return None
    newest, oldest = (Month.of(page.items[0].created_at, zone) for page in ends)
    if newest == oldest:
        return None
    is_descending = order == ImageSort.NEWEST.value
    current = month or (newest if is_descending else oldest)

    def months_of(year: int) -> list[Month]:
        months = [Month(year, number) for number in range(1, 13)]
        return [each for each in months[:: -1 if is_descending else 1] if oldest <= each <= newest]

    years = range(oldest.year, newest.year + 1)[:: -1 if is_descending else 1]
    return Timeline(
        years=[months_of(year)[0] for year in years],
        months=months_of(current.year),
        current=current,
        last=oldest if is_descending else newest,
        total=ends[0].total,
    )
