"""Probes over HTTP, and the API description, which matches the routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from imagehost_core.models import Scope
from imagehost_core.uploads import FORM_FIELDS
from imagehost_server.openapi.docs_page import ASSETS
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.testing import RunningServer

METHODS = ("get", "post", "patch", "delete", "put")


@pytest.fixture(scope="module")
def document(anonymous: httpx2.Client) -> dict[str, Any]:
    return dict(anonymous.get("/v1/openapi.json").json())


def described_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of every operation."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def test_no_schema_has_the_name_that_gos_generator_gives_to_the_constructor_of_another(
    document: dict[str, Any],
) -> None:
    names = document["components"]["schemas"].keys()
    assert {name for name in names if f"New{name}" in names} == set()


def test_no_two_schemas_of_enums_have_a_value_in_common_which_is_a_constant_in_go(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    values = [value for schema in schemas.values() for value in schema.get("enum", ())]
    assert len(values) == len(set(values))
    for record in ("BulkResultRecord", "MembershipResult"):
        assert "not_found" in schemas[record]["properties"]["status"]["enum"]


def test_healthz_and_readyz_respond(anonymous: httpx2.Client) -> None:
    alive = {"status": "alive", "ip_address": "127.0.0.1"}
    assert anonymous.get("/healthz").json() == {"success": True, "data": alive}
    assert anonymous.get("/readyz").json() == {"success": True, "data": {"status": "ready"}}
    assert anonymous.head("/healthz").status_code == 200
    for path in ("/healthz", "/readyz"):
        assert anonymous.get(path).headers["cache-control"] == "no-store"


def test_the_document_has_exactly_the_routes_and_the_delivery_route(document: dict[str, Any]) -> None:
    described = {f"{method} {path}" for method, path, _ in described_operations(document)}
    assert described == {route.replace(" /v1/", " /") for route in ROUTE_SCOPES} | {"GET /{file}"}


def test_the_document_has_the_security_requirement_of_each_route(document: dict[str, Any]) -> None:
    session: list[dict[str, list[str]]] = [{"session": []}, {"cookie": [], "csrf": []}]
    for method, path, item in described_operations(document):
        for prefix in ("/v1", ""):
            requirement = ROUTE_SCOPES.get(f"{method} {prefix}{path}")
            if requirement is not None:
                key = [{"token": [requirement.value]}] if isinstance(requirement, Scope) else []
                assert item["security"] == [*key, *session]
                assert "401" in item["responses"]


def test_every_reference_in_the_document_resolves(document: dict[str, Any]) -> None:
    for target in set(re.findall(r"'\$ref': '#/([^']+)'", str(document))):
        node: Any = document
        for name in target.split("/"):
            node = node[name]


def test_every_operation_that_changes_something_has_the_status_of_a_full_disk(
    document: dict[str, Any],
) -> None:
    for method, _, item in described_operations(document):
        assert ("507" in item["responses"]) == (method != "GET")


def test_every_operation_has_the_status_of_headers_that_are_too_large(document: dict[str, Any]) -> None:
    assert all("431" in item["responses"] for _, _, item in described_operations(document))


def test_the_urls_in_the_document_are_served(
    document: dict[str, Any], anonymous: httpx2.Client, server: RunningServer
) -> None:
    assert document["servers"] == [{"url": server.base_url}]
    for method, path, _ in described_operations(document):
        item = document["paths"][path]
        url = (item.get("servers") or document["servers"])[0]["url"] + re.sub(r"\{\w+\}", "0" * 16, path)
        assert anonymous.request(method, url).status_code != 405


def test_the_document_has_the_members_of_actual_responses(
    document: dict[str, Any], api: httpx2.Client, png: bytes
) -> None:
    records = {
        "ImageRecord": api.post("/v1/upload", files={"image": png}).json()["data"],
        "AlbumRecord": api.post("/v1/albums", json={"name": "x"}).json()["data"],
        "PublicImageRecord": api.get("/v1/gallery").json()["data"]["images"][0],
        "Pagination": api.get("/v1/images").json()["data"]["pagination"],
    }
    for name, record in records.items():
        assert list(document["components"]["schemas"][name]["properties"]) == list(record)
        assert set(document["components"]["schemas"][name]["required"]) == set(record)


def test_every_member_has_a_description(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    missing = [
        f"{name}.{member}"
        for name, schema in schemas.items()
        for member, item in schema.get("properties", {}).items()
        if "description" not in item and "$ref" not in item and not name.endswith("Response")
    ]
    assert not [member for member in missing if not member.startswith("Error.")]


def test_the_upload_form_is_documented_field_by_field(document: dict[str, Any]) -> None:
    content = document["paths"]["/upload"]["post"]["requestBody"]["content"]
    (media_type,) = content
    fields = document["components"]["schemas"]["UploadForm"]["properties"]
    assert media_type == "multipart/form-data"
    assert content[media_type]["schema"] == {"$ref": "#/components/schemas/UploadForm"}
    assert fields.keys() == {"files[]", "image", "image_url", "delete_url", *FORM_FIELDS}


def test_the_docs_page_has_a_strict_policy_and_refers_to_this_origin_only(anonymous: httpx2.Client) -> None:
    response = anonymous.get("/v1/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert not re.search(r"<style|style=|<script>|//", response.text)
    for url in re.findall(r'(?:src|href)="([^"]+)"', response.text):
        assert anonymous.get(url).status_code == 200


def test_no_schema_has_what_generators_of_clients_do_not_support(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["ImageRecordResponse"]["properties"]["success"]["type"] == "boolean"
    for name, schema in schemas.items():
        # It takes precedence over the name.
        assert schema.get("title", name) == name
        assert not {"oneOf", "anyOf", "allOf"} & schema.keys(), name
        for member, item in schema.get("properties", {}).items():
            assert not isinstance(item.get("const"), bool), (name, member)
            assert "default" not in item, (name, member)
    assert "anyOf" not in str(document["webhooks"])
    assert set(schemas["Deleted"]["required"]) == {"id", "deleted"}
    assert schemas["SignedUrlRequest"]["properties"]["expires_in"]["description"].endswith("Default: `3600`.")


@pytest.mark.parametrize("name", ASSETS)
def test_the_files_of_the_docs_page_are_served_with_their_type_and_not_counted(
    name: str, anonymous: httpx2.Client
) -> None:
    response = anonymous.get(f"/v1/docs/assets/{name}")
    path, media_type = ASSETS[name]
    assert (response.status_code, response.content) == (200, path.read_bytes())
    assert response.headers["content-type"].startswith(media_type)
    assert "x-ratelimit-limit" not in response.headers
    assert anonymous.head(f"/v1/docs/assets/{name}").status_code == 200


@pytest.mark.parametrize("name", ["oauth2-redirect.html", "swagger-ui-bundle.js.map", "..%2Fdocs_page.py"])
def test_other_files_of_the_directories_are_not_served(name: str, anonymous: httpx2.Client) -> None:
    response = anonymous.get(f"/v1/docs/assets/{name}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")


def test_the_path_alias_has_every_route(api: httpx2.Client) -> None:
    for route in ROUTE_SCOPES:
        method, path = route.replace("{image_id}", "0" * 16).split(" ")
        if path.startswith("/v1/"):
            direct, alias = api.request(method, path), api.request(method, f"/api{path}")
            assert alias.status_code == direct.status_code
            if direct.headers["content-type"] != "application/json" or "success" not in direct.json():
                assert alias.content == direct.content
            else:
                assert alias.json().items() >= direct.json().items()
