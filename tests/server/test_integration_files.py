"""Configuration files for other programs contain the URL and the token as they are, whatever they contain."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_server.integrations import INTEGRATIONS, TOKEN_PLACEHOLDER, UPLOAD_FUNCTION, UploadTarget

EXAMPLE = UploadTarget("https://images.example.com/v1", "ihk_abc")
SHELL_SCRIPTS = [name for name in INTEGRATIONS if name.endswith(".sh")]
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


def render(name: str, target: UploadTarget = EXAMPLE) -> str:
    return INTEGRATIONS[name].render(target)


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_every_file_has_the_upload_url_and_the_token(name: str) -> None:
    text = render(name)
    assert "https://images.example.com/v1/upload" in text
    assert "ihk_abc" in text
    assert TOKEN_PLACEHOLDER not in text


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_without_a_token_a_file_has_the_placeholder(name: str) -> None:
    assert TOKEN_PLACEHOLDER in render(name, UploadTarget("https://images.example.com/v1"))


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_the_name_of_a_file_is_its_key(name: str) -> None:
    assert INTEGRATIONS[name].filename == name


def test_sharex_sends_form_2_and_reads_the_url() -> None:
    config = json.loads(render("sharex.sxcu"))
    assert config["DestinationType"] == "ImageUploader"
    assert (config["RequestMethod"], config["Body"], config["FileFormName"]) == (
        "POST",
        "MultipartFormData",
        "image",
    )
    assert config["RequestURL"] == "https://images.example.com/v1/upload"
    assert config["Headers"] == {"Authorization": "Bearer ihk_abc"}
    assert config["URL"] == "{json:data.url}"
    assert config["Arguments"] == {"delete_url": "true"}
    assert config["DeletionURL"] == "{json:data.delete_url}"
    assert config["Name"] == "images.example.com"


def test_picgo_uploads_with_the_plug_in() -> None:
    config = json.loads(render("picgo.json"))
    uploader = config["picBed"][config["picBed"]["uploader"]]
    assert (uploader["url"], uploader["paramName"]) == ("https://images.example.com/v1/upload", "image")
    assert uploader["jsonPath"].split(".") == ["data", "url"]
    assert json.loads(uploader["customHeader"]) == {"Authorization": "Bearer ihk_abc"}
    assert config["picgoPlugins"] == {"picgo-plugin-web-uploader": True}


def test_upic_imports_a_list_of_hosts_that_are_texts_of_json() -> None:
    (text,) = json.loads(render("upic.json"))
    host = json.loads(text)
    data = json.loads(host["data"])
    assert host.keys() == {"id", "name", "type", "data"}
    assert (host["name"], host["type"]) == ("images.example.com", "custom")
    assert (data["url"], data["method"], data["field"]) == (
        "https://images.example.com/v1/upload",
        "POST",
        "image",
    )
    assert json.loads(data["headers"]) == [{"key": "Authorization", "value": "Bearer ihk_abc"}]
    assert json.loads(data["resultPath"]) == ["data", "url"]
    assert all(isinstance(data[name], str) for name in data if name != "useBase64")


@given(texts, texts)
def test_any_url_and_token_survive_json(base_url: str, token: str) -> None:
    target = UploadTarget("https://a/" + base_url, token)
    sharex = json.loads(render("sharex.sxcu", target))
    assert sharex["RequestURL"] == target.upload_url
    assert sharex["Headers"] == {"Authorization": f"Bearer {token}"}
    picgo = json.loads(render("picgo.json", target))["picBed"]["web-uploader"]
    assert json.loads(picgo["customHeader"]) == sharex["Headers"]
    upic = json.loads(json.loads(json.loads(render("upic.json", target))[0])["data"])
    assert json.loads(upic["headers"])[0]["value"] == f"Bearer {token}"


@given(texts, texts, st.sampled_from(SHELL_SCRIPTS))
def test_a_shell_reads_any_url_and_token_as_they_are(base_url: str, token: str, name: str) -> None:
    target = UploadTarget("https://a/" + base_url, token)
    assignments = render(name, target).partition(UPLOAD_FUNCTION)[0]
    command = assignments + '\nprintf \'%s\\0%s\' "$upload_url" "$token"'
    process = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert process.stdout == f"{target.upload_url}\0{token}".encode()


@pytest.mark.parametrize("name", SHELL_SCRIPTS)
def test_a_shell_script_has_no_syntax_error(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(render(name), encoding="utf-8")
    subprocess.run(["sh", "-n", str(tmp_path / name)], check=True)
    assert render(name).startswith("#!/bin/sh\n")


def test_the_curl_script_without_files_prints_its_usage(tmp_path: Path) -> None:
    script = tmp_path / "curl.sh"
    script.write_text(render("curl.sh"), encoding="utf-8")
    process = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == f"usage: sh {script} FILE...\n"
