"""A request for a page: its viewer, its form, and the template that responds to it."""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import cast
from urllib.parse import urlsplit

from litestar.response import Template

from imagehost_core.errors import (
    ImageHostError,
)
from imagehost_core.models import Account, Role
from imagehost_core.uploads import MAX_DESCRIPTION
from imagehost_server.auth.cookies import cookie_value, csrf_token
from imagehost_server.auth.identity import RequestIdentity
from imagehost_server.routes.handler import ApiRequest
from imagehost_server.web.assets import asset_path, logo
from imagehost_server.web.catalog import Texts, choose_language, texts_of
from imagehost_server.web.failures import describe_failure
from imagehost_server.web.local_time import ZONE_COOKIE, LocalTime, find_zone
from imagehost_server.web.page_headers import page_headers
from imagehost_server.web.presentation import LINK_FORMATS

HTML = "text/html"
"""The content type of pages."""

OUTCOME_PARAMETER = "done"
"""The query parameter of a page that a form leads to: what was done, one of `OUTCOMES`."""

OUTCOMES = ("saved", "deleted", "password_changed", "event_sent", "signing_secret_renewed")
"""The messages that a page shows after a form."""


class WebRequest(ApiRequest):
    """A request for a page."""

    @property
    def viewer(self) -> Account | None:
        """The account of the session, or `None`."""
        principal = self.identity.principal
        return None if principal is None else principal.account

    @property
    def identity(self) -> RequestIdentity:
        """The identity of the session; without one, that of the IP address."""
        state = self.scope["state"]
        fallback = RequestIdentity(None, None, by_cookie=False, token="", ip_address=str(state["ip_address"]))
        identity = state.setdefault("identity", fallback)
        assert isinstance(identity, RequestIdentity)
        return identity

    @property
    def is_public(self) -> bool:
        """Whether the page shows what is public."""
        return self.scope["state"].get("is_public") is True

    @property
    def texts(self) -> Texts:
        """The texts in the language that the client prefers."""
        return texts_of(choose_language(self.headers.get("accept-language", "")))

    @property
    def zone(self) -> tzinfo:
        """The time zone of the browser, or UTC if it has named none."""
        return find_zone(cookie_value(self.scope["headers"], ZONE_COOKIE))

    @property
    def field_lists(self) -> dict[str, list[str]]:
        """All values of each field of the form that was sent, in requests of the method POST."""
        return cast("dict[str, list[str]]", self.scope["state"]["form"])

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the form that was sent; of a repeated one, the last value."""
        return {name: values[-1] for name, values in self.field_lists.items()}

    def render(
        self,
        template: str,
        /,
        *,
        status: int = 200,
        failure: ImageHostError | None = None,
        **values: object,
    ) -> Template:
        """Return a page.

        Args:
            template: The name of its template.
            status: The HTTP status, unless there is a failure.
            failure: The error of a form, which the page shows; its status is that of the page.
            values: The values that the template uses, beside those of every page.
        """
        status = failure.status if failure else status
        web = self.settings.web
        return Template(
            template,
            context={**self._common_values(status, failure), **values},
            status_code=status,
            media_type=HTML,
            headers=page_headers(
                self.settings.delivery_url, self.viewer, public=self.is_public, listed=web.listed
            ),
        )

    def render_text(self, template: str, /, **values: object) -> str:
        """Return the text of a template, with the values of every page."""
        engine = self.app.template_engine
        assert engine is not None
        return str(engine.get_template(template).render(**self._common_values(200, None), **values))

    def _common_values(self, status: int, failure: ImageHostError | None) -> dict[str, object]:
        web, identity, viewer = self.settings.web, self.identity, self.viewer
        root = self.settings.root_path
        outcome = self.query_params.get(OUTCOME_PARAMETER, "")
        return {
            "address": root + reopened_path(self.scope["path"]) if self.method == "POST" else "",
            "api": urlsplit(self.settings.base_url).path,
            "asset": lambda name: root + asset_path(name, web),
            "csrf": csrf_token(identity.token) if identity.by_cookie else "",
            "failure": describe_failure(failure.code, failure.details, self.texts) if failure else "",
            "max_description": MAX_DESCRIPTION,
            "link_formats": LINK_FORMATS,
            "local": LocalTime(self.zone, self.texts),
            "logo": root + logo(web).path,
            "navigation": navigation(viewer),
            "outcome": outcome if outcome in OUTCOMES else "",
            "path": self.scope["path"],
            "root": root,
            "site": web.site_name,
            "status": status,
            "t": self.texts,
            "viewer": viewer,
        }


opened_paths: list[re.Pattern[str]] = []
"""The paths of the pages that GET returns."""


def reopened_path(path: str) -> str:
    """Return the path of the page that shows what a form has changed: its own, or the nearest above it."""
    while path and not any(pattern.fullmatch(path) for pattern in opened_paths):
        path = path.rpartition("/")[0]
    return path or "/"


def navigation(viewer: Account | None) -> tuple[tuple[str, str], ...]:
    """Return the names and paths of the pages that the header of every page links to."""
    if viewer is None:
        return _PUBLIC_PAGES
    operator = _OPERATOR_PAGES if viewer.role is Role.OPERATOR else ()
    return (*_PUBLIC_PAGES, *_ACCOUNT_PAGES, *operator)


_PUBLIC_PAGES = (("gallery", "/"),)

_ACCOUNT_PAGES = tuple((name, f"/{name}") for name in ("upload", "images", "albums", "settings"))

_OPERATOR_PAGES = (("admin", "/admin"),)
