"""A host below a path of another site, behind nginx and Caddy that remove the path or leave it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.outside.reverse_proxies import PASSWORD, behind
from tests.server.below_a_path import ROOT, use


@pytest.mark.parametrize("strips", [True, False], ids=["removed", "left"])
@pytest.mark.parametrize("name", ["nginx below a path", "Caddy below a path"])
def test_people_sign_in_upload_and_sign_out_below_a_path(
    name: str, strips: bool, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    variables = {"IMAGEHOST_LIMITS_PAGES_PER_MINUTE": "0"}
    with behind(name, certificate, tmp_path, variables, leaves_path=not strips) as proxied:
        origin = str(proxied.client.base_url).rstrip("/")
        assert f"{origin}{ROOT}/upload" in proxied.server.output
        assert proxied.get("/readyz").status_code == 200
        assert proxied.get("").headers["location"].endswith(f"{ROOT}/")
        assert proxied.client.get("/v1/gallery").status_code == 404
        walk = use(proxied.client, PASSWORD)
        assert (len(walk.seen), len(walk.forms)) > (9, 9)
