"""The routes of the pages, and the engine that renders their templates."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.template import TemplateConfig

from imagehost_server.routes.handler import handlers_of
from imagehost_server.web import assets
from imagehost_server.web.pages import (
    admin,
    albums,
    archives,
    feeds,
    images,
    public,
    settings,
    shares,
    sign_in,
    site_files,
    upload,
    webhooks,
)

HANDLERS = handlers_of(
    public,
    feeds,
    site_files,
    sign_in,
    upload,
    images,
    albums,
    shares,
    archives,
    settings,
    webhooks,
    admin,
    assets,
)
"""The handlers of all pages."""


def template_config() -> TemplateConfig[JinjaTemplateEngine]:
    """Return the engine with the templates of the pages; every value is escaped, and a missing one raises."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return TemplateConfig(engine=JinjaTemplateEngine.from_environment(environment))
