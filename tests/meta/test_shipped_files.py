"""Each file that is shipped for another program is tested as it is, with that program."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.meta.test_named_tests import functions
from tests.outside.browser.frameworks import FRAMEWORKS
from tests.shipped_files import ROOT, SUBSTITUTIONS, fill

TESTS: Mapping[str, Mapping[str, str]] = {
    "client/extended/test_client_examples.py": dict.fromkeys(
        ("docs/examples/client_*.py", "docs/examples/program_*"),
        "test_an_example_of_the_client_prints_its_documented_output",
    ),
    "meta/extended/test_examples.py": {
        "docs/examples/embed_*.py": "test_an_example_of_embedding_prints_its_documented_output"
    },
    "outside/browser/test_browser_uploads.py": {
        "docs/examples/browser_fetch.html": "test_fetch_uploads_and_shows_images",
        "docs/examples/browser_filepond.html": "test_filepond_uploads_and_shows_images",
        "docs/examples/browser_uploaders.js": "test_an_uploader_of_another_origin_uploads_and_shows_images",
        "docs/examples/browser_uppy.js": "test_uppy_uploads_a_request_for_each_file",
        "docs/examples/browser_uppy_bundle.js": "test_uppy_uploads_all_files_in_one_request",
    },
    "outside/browser/test_frameworks.py": {
        "docs/integrations/frameworks/signed.mjs": (
            "test_the_sizes_of_a_private_image_that_the_server_of_a_page_signs_are_shown"
        ),
        **{
            f"docs/integrations/frameworks/{name}/*": (
                "test_a_page_of_a_framework_shows_images_in_sizes_that_exist_after_their_placeholders"
            )
            for name in FRAMEWORKS
        },
    },
    "outside/deploy/test_container.py": {
        "deploy/Containerfile": "test_the_command_of_the_image_serves_and_its_health_check_notices_it",
        "deploy/compose.yaml": "test_the_server_trusts_the_ip_address_of_caddy_alone",
    },
    "outside/deploy/test_hosts.py": {
        "deploy/compose-hosts.yaml": (
            "test_an_image_is_uploaded_by_one_host_sent_by_each_and_deleted_everywhere"
        ),
    },
    "outside/deploy/test_kubernetes.py": {"deploy/kubernetes.yaml": "test_kubernetes_validate_finds_nothing"},
    "outside/deploy/test_systemd_unit.py": {
        "deploy/imagehost.service": "test_the_command_of_the_unit_reports_ready_and_stopping",
        "deploy/imagehost.sysusers": "test_the_user_is_created_by_the_sysusers_file",
    },
    "outside/test_grafana.py": {
        "deploy/grafana-dashboard.json": "test_grafana_reads_every_field_of_the_dashboard"
    },
    "outside/test_prometheus.py": {"deploy/prometheus-alerts.yml": "test_the_alert_rules_are_valid"},
    "outside/test_reverse_proxies.py": {
        **dict.fromkeys(
            (
                "deploy/Caddyfile",
                "deploy/Caddyfile-hosts",
                "deploy/Caddyfile-path",
                "deploy/nginx-path.conf",
                "deploy/nginx.conf",
                "docs/examples/nginx_accel.conf",
                "docs/examples/nginx_cache.conf",
                "docs/examples/varnish.vcl",
            ),
            "test_what_an_owner_or_operator_hides_is_never_served_again",
        ),
        **dict.fromkeys(
            ("docs/examples/caddy_hotlink.caddyfile", "docs/examples/nginx_hotlink.conf"),
            "test_the_recipes_against_hotlinks_send_images_to_the_named_sites_alone",
        ),
        **dict.fromkeys(
            ("docs/examples/caddy_move.caddyfile", "docs/examples/nginx_move.conf"),
            "test_the_old_name_of_a_site_leads_people_to_the_new_one_and_serves_programs",
        ),
    },
    "outside/test_webhook_verifiers.py": dict.fromkeys(
        (
            "docs/examples/webhook_django.py",
            "docs/examples/webhook_express.mjs",
            "docs/examples/webhook_fastapi.py",
            "docs/examples/webhook_hono.mjs",
            "docs/examples/webhook_next.mjs",
        ),
        "test_a_documented_receiver_accepts_what_is_delivered_and_nothing_else",
    ),
    "server/webhooks/test_webhook_pages.py": {
        "docs/examples/webhook_receiver.py": "test_the_example_receiver_handles_each_event_once"
    },
}
"""The test of the purpose of each file, or of the files of a pattern, by its module."""

ROWS = [(module, pattern) for module, patterns in TESTS.items() for pattern in patterns]


def shipped_files() -> list[str]:
    """Return the paths of all shipped files."""
    folders = (ROOT / "deploy", ROOT / "docs" / "examples", ROOT / "docs" / "integrations" / "frameworks")
    files = (path for each in folders for path in each.rglob("*") if path.is_file() and path.suffix != ".md")
    return sorted(str(path.relative_to(ROOT)) for path in files)


def test_every_shipped_file_has_a_test_of_its_purpose() -> None:
    rows = {path: [pattern for _, pattern in ROWS if fnmatch(path, pattern)] for path in shipped_files()}
    assert {path: found for path, found in rows.items() if len(found) != 1} == {}
    assert {pattern for _, pattern in ROWS} == {pattern for found in rows.values() for pattern in found}


@pytest.mark.parametrize(("module", "pattern"), ROWS)
def test_the_test_of_a_shipped_file_exists_and_reads_it(module: str, pattern: str) -> None:
    path = ROOT / "tests" / module
    assert TESTS[module][pattern] in functions(path)
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"^from tests\.([\w.]+) import", text, re.MULTILINE)
    sources = [path, *(ROOT / "tests" / f"{each.replace('.', '/')}.py" for each in used)]
    name = pattern.rpartition("/")[2]
    assert any(name in source.read_text(encoding="utf-8") for source in sources)


def test_no_test_reads_a_shipped_file_but_by_the_helper_that_allows_substitutions() -> None:
    reads = re.compile(r"(\bdeploy\b|docs/examples|\"examples\")[^\n]*\bread_text")
    others = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert [str(path) for path in others if reads.search(path.read_text(encoding="utf-8"))] == []


def test_nothing_but_ports_names_paths_and_documented_alternatives_is_substituted() -> None:
    for documented, pattern in SUBSTITUTIONS.items():
        sys.stdout.write(f"{documented} -> {pattern}\n")
    for documented, tested in (
        ("X-Forwarded-Proto $scheme", "X-Forwarded-Proto https"),
        ("listen 443", "listen 127.0.0.1:1; return 200"),
        ("/etc/ssl/", "/tmp/; /"),
    ):
        with pytest.raises((AssertionError, KeyError)):
            fill("deploy/nginx.conf", f"{documented};", {documented: tested})


def test_the_table_of_frameworks_has_the_tested_versions_and_tests() -> None:
    folder = ROOT / "docs" / "integrations" / "frameworks"
    page = (folder / "index.md").read_text(encoding="utf-8")
    for name, framework in FRAMEWORKS.items():
        row = next(line for line in page.splitlines() if f"({name}.md)" in line)
        version = next(iter(framework.packages.values()))
        assert version in row
        assert f"`test_frameworks.py`, `{name}`" in row


def test_the_file_of_a_framework_that_people_copy_has_fewer_than_40_lines() -> None:
    folder = ROOT / "docs" / "integrations" / "frameworks"
    lengths = {
        path: len(path.read_bytes().splitlines()) for path in folder.rglob("*imagehost*") if path.is_file()
    }
    assert len(lengths) == len(FRAMEWORKS)
    assert max(lengths.values()) < 40
