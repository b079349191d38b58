"""PicGo: its command and its server, with the plug-ins for our interface and for Lsky's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import httpx2
import pytest
from tests.outside.conftest import NPM, PYPI, Download, Run, Start
from tests.ports import free_port
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer

PLUGINS = ("picgo-plugin-web-uploader", "picgo-plugin-lankong", "picgo-plugin-lsky-uploader")

DELETE = """
const { PicGo } = require('picgo')
const [config, path] = process.argv.slice(2)
const picgo = new PicGo(config)
picgo.upload([path]).then(async ([image]) => {
  console.log(image.imgUrl)
  await Promise.allSettled(picgo.listeners('remove').map(listener => listener([image], {})))
  process.exit(0)
})
"""
"""Uploads with PicGo as a library, then deletes as the app does when a person deletes the image there.

The plug-in sends the request but fails at its response, because PicGo has already parsed the JSON.
"""

Configure = Callable[[str], Path]


@pytest.fixture
def configure(node_modules: Path, tmp_path: Path) -> Configure:
    """Writes a configuration and returns its path; the plug-ins are beside it, where PicGo looks for them."""

    def write(configuration: str) -> Path:
        directory = tmp_path / "picgo"
        directory.mkdir()
        (directory / "node_modules").symlink_to(node_modules)
        package = {"name": "picgo-plugins", "dependencies": {plugin: NPM[plugin] for plugin in PLUGINS}}
        (directory / "package.json").write_text(json.dumps(package), encoding="utf-8")
        path = directory / "config.json"
        path.write_text(configuration, encoding="utf-8")
        return path

    return write


def configuration(plugin: str, options: Mapping[str, object]) -> str:
    """Return a configuration that uploads with a plug-in."""
    uploader = plugin.removeprefix("picgo-plugin-")
    return json.dumps(
        {
            "picBed": {"current": uploader, "uploader": uploader, uploader: options},
            "picgoPlugins": {plugin: True},
        }
    )


def lankong(server: RunningServer, permission: int = 1) -> str:
    options = {
        "lskyProVersion": "V2",
        "server": server.origin,
        "token": f"Bearer {server.token}",
        "strategyId": "1",
        "permission": permission,
        "syncDelete": True,
    }
    return configuration("picgo-plugin-lankong", options)


def versions(plugin: str) -> str:
    return f"picgo {NPM['picgo']}, plug-in {NPM[plugin]}"


def shown_url(output: str) -> str:
    """Return the URL that PicGo printed last."""
    assert "[PicGo SUCCESS]" in output, output
    return output.strip().splitlines()[-1]


def test_picgo_uploads_with_our_configuration(
    outside_client: Start,
    node_modules: Path,
    configure: Configure,
    download: Download,
    run: Run,
    png: Path,
) -> None:
    client = outside_client("picgo upload, web-uploader", versions("picgo-plugin-web-uploader"))
    config = configure(download("picgo.json"))
    output = run("node", node_modules / "picgo" / "bin" / "picgo", "--config", config, "upload", png)
    client.require_upload(shown_url(output))


def test_picgo_uploads_with_lankong(
    outside_client: Start,
    node_modules: Path,
    configure: Configure,
    tls_server: RunningServer,
    run: Run,
    png: Path,
) -> None:
    client = outside_client("picgo upload, lankong", versions("picgo-plugin-lankong"))
    config = configure(lankong(tls_server))
    output = run("node", node_modules / "picgo" / "bin" / "picgo", "--config", config, "upload", png)
    client.require_upload(shown_url(output))


def test_picgo_uploads_with_lsky_uploader(
    outside_client: Start,
    node_modules: Path,
    configure: Configure,
    tls_server: RunningServer,
    run: Run,
    jpeg: Path,
) -> None:
    plugin = "picgo-plugin-lsky-uploader"
    client = outside_client("picgo upload, lsky-uploader", versions(plugin))
    config = configure(configuration(plugin, {"Url": tls_server.origin, "Token": tls_server.token}))
    output = run("node", node_modules / "picgo" / "bin" / "picgo", "--config", config, "upload", jpeg)
    client.require_upload(shown_url(output), (640, 480))


def test_lankong_uploads_private_images_and_deletes_without_a_trace(
    node_modules: Path,
    configure: Configure,
    tls_server: RunningServer,
    api: httpx2.Client,
    anonymous: httpx2.Client,
    run: Run,
    png: Path,
) -> None:
    script = png.with_name("delete.cjs")
    script.write_text(DELETE, encoding="utf-8")
    before = stored_images(tls_server)
    output = run("node", script, configure(lankong(tls_server, 0)), png, env={"NODE_PATH": str(node_modules)})
    url = next(line for line in output.splitlines() if line.startswith("https://"))
    image_id = url.rpartition("/")[2].partition(".")[0]
    assert api.get(f"/v1/images/{image_id}").status_code == 404
    assert [client.get(url).status_code for client in (anonymous, api)] == [404, 404]
    assert stored_images(tls_server) == before


def stored_images(server: RunningServer) -> list[str]:
    """Return the ids of all images of which a master is on disk."""
    return sorted(path.parent.name for path in (server.data / "images").rglob("master"))


@contextmanager
def picgo_server(node_modules: Path, config: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Run PicGo's server, to which editors send images, until the block ends; yield its URL."""
    port = free_port()
    command = [
        *("node", str(node_modules / "picgo" / "bin" / "picgo"), "--config", str(config)),
        *("server", "--host", "127.0.0.1", "--port", str(port), "--ignore-existing-external-server"),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables
    )
    assert process.stdout is not None
    try:
        lines: list[str] = []
        while not any(str(port) in line for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_the_server_of_picgo_uploads_files_that_editors_name(
    outside_client: Start,
    node_modules: Path,
    configure: Configure,
    download: Download,
    variables: Mapping[str, str],
    png: Path,
    jpeg: Path,
) -> None:
    client = outside_client("picgo server (Obsidian, Typora)", versions("picgo-plugin-web-uploader"))
    with picgo_server(node_modules, configure(download("picgo.json")), variables) as url:
        body = json.dumps({"list": [str(png), str(jpeg)]}).encode()
        request = Request(f"{url}/upload", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as response:
            result = json.load(response)
    assert result["success"] is True
    first, second = result["result"]
    client.require_upload(first)
    client.require_upload(second, (640, 480))


@pytest.mark.parametrize("method", ["server", "cli"])
def test_image_migrate_picgo_uploads_the_images_of_a_note(
    outside_client: Start,
    node_modules: Path,
    python_programs: Path,
    configure: Configure,
    download: Download,
    variables: Mapping[str, str],
    run: Run,
    png: Path,
    jpeg: Path,
    method: str,
) -> None:
    client = outside_client(f"image-migrate-picgo, {method}", PYPI["image-migrate-picgo"])
    note = png.with_name("note.md")
    note.write_text(f"![cat](<{png.name}>)\n\n![photo]({jpeg.name})\n", encoding="utf-8")
    config = configure(download("picgo.json"))
    program = python_programs / "image-migrate-picgo"
    if method == "server":
        with picgo_server(node_modules, config, variables) as url:
            run(program, note, "--method=server", f"--server-url={url}/upload")
    else:
        picgo = node_modules / ".bin" / "picgo"
        run(program, note, "--method=cli", f"--picgo-command={picgo}", f"--picgo-config={config}")
    first, second = (
        line.partition("(<")[2].removesuffix(">)") for line in note.read_text("utf-8").splitlines() if line
    )
    client.require_upload(first)
    client.require_upload(second, (640, 480))
