"""The page `/v1/docs` in Chromium: it keeps its policy, loads nothing of others, and can send requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from attrs import define, field

from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, FilePayload, Page

pytestmark = pytest.mark.external

SHOW_BODY = """async ([selector, isJson, names]) => {
  const until = async (found) => {
    while (!found()) await new Promise((resolve) => setTimeout(resolve, 20));
    return found();
  };
  const operation = document.querySelector(selector);
  operation.querySelector(".opblock-summary-control").click();
  const body = await until(() => operation.querySelector(".opblock-section-request-body"));
  if (isJson) (await until(() => body.querySelector("[data-name=model]"))).click();
  await until(() => names.every((name) => body.textContent.includes(name)));
  operation.querySelector(".opblock-summary-control").click();
}"""
"""Unfolds an operation, waits until its body shows every member, and folds it again."""


@define
class DocsPage:
    """The opened page, the URLs that it requested, and the errors in its console."""

    page: Page
    document: dict[str, Any]
    requests: list[str] = field(factory=list)
    errors: list[str] = field(factory=list)


def selector_of(operation: dict[str, Any]) -> str:
    return f"#operations-{operation['tags'][0]}-{operation['operationId']}"


@pytest.fixture
def docs(context: BrowserContext, server: RunningServer) -> Iterator[DocsPage]:
    page = context.new_page()
    opened = DocsPage(page, httpx2.get(f"{server.base_url}/openapi.json").json())

    def record_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            opened.errors.append(message.text)

    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("console", record_message)
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.goto(f"{server.base_url}/docs")
    page.wait_for_selector(".opblock")
    yield opened
    loaded = [url for url in opened.requests if not url.startswith(("data:", "blob:"))]
    assert [url for url in loaded if not url.startswith(f"{server.origin}/")] == []
    assert opened.errors == []


def test_an_upload_can_be_tried_on_the_docs_page(
    docs: DocsPage, server: RunningServer, image_files: list[FilePayload]
) -> None:
    page = docs.page
    page.click(".auth-wrapper button.authorize")
    form = ".auth-container:first-child form"
    page.fill(f"{form} input", server.token)
    page.click(f"{form} button.authorize")
    page.click(".modal-ux .close-modal")

    selector = selector_of(docs.document["paths"]["/upload"]["post"])
    page.click(f"{selector} .opblock-summary-control")
    page.set_input_files(f"{selector} [data-property-name=image] input[type=file]", image_files[0])
    page.click(f"{selector} button.execute")
    shown = page.wait_for_selector(f"{selector} .live-responses-table tbody .response-col_status")
    assert shown is not None
    assert shown.inner_text().split()[0] == "200"
    headers = {"Authorization": f"Bearer {server.token}"}
    images = httpx2.get(f"{server.base_url}/images", headers=headers).json()["data"]["images"]
    assert images[0]["original_filename"] == image_files[0]["name"]


def test_the_docs_page_shows_every_operation_and_every_member_of_every_body(docs: DocsPage) -> None:
    page, schemas = docs.page, docs.document["components"]["schemas"]
    items = docs.document["paths"].values()
    operations = [value for item in items for key, value in item.items() if key != "servers"]
    webhooks = [item["post"] for item in docs.document["webhooks"].values()]
    assert page.locator(".opblock").count() == len(operations) + len(webhooks)
    for operation in operations:
        if "requestBody" in operation:
            ((media_type, content),) = operation["requestBody"]["content"].items()
            schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
            is_json = media_type == "application/json"
            page.evaluate(SHOW_BODY, [selector_of(operation), is_json, list(schema["properties"])])
