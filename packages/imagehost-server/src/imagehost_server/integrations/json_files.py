"""Configuration files in JSON: ShareX, PicGo and uPic."""

from __future__ import annotations

import json

from imagehost_server.integrations.target import FILE_FIELD, URL_PATH, UploadTarget

SHAREX_VERSION = "14.0.0"
"""The first version of ShareX that has the syntax of this file, `{json:…}`."""


def sharex(target: UploadTarget) -> str:
    """Return a custom uploader of ShareX, which is imported by a double click."""
    return _pretty(
        {
            "Version": SHAREX_VERSION,
            "Name": target.name,
            "DestinationType": "ImageUploader",
            "RequestMethod": "POST",
            "RequestURL": target.upload_url,
            "Headers": {"Authorization": target.authorization},
            "Body": "MultipartFormData",
            "FileFormName": FILE_FIELD,
            "URL": f"{{json:{'.'.join(URL_PATH)}}}",
            "ThumbnailURL": "{json:data.thumb_url}",
            "ErrorMessage": "{json:error.details}",
        }
    )


def picgo(target: UploadTarget) -> str:
    """Return a configuration of PicGo that uploads with the plug-in web-uploader."""
    uploader = "web-uploader"
    return _pretty(
        {
            "picBed": {
                "current": uploader,
                "uploader": uploader,
                uploader: {
                    "url": target.upload_url,
                    "paramName": FILE_FIELD,
                    "jsonPath": ".".join(URL_PATH),
                    # The plug-in parses these two as JSON.
                    "customHeader": json.dumps({"Authorization": target.authorization}),
                    "customBody": "",
                },
            },
            "picgoPlugins": {f"picgo-plugin-{uploader}": True},
        }
    )


def upic(target: UploadTarget) -> str:
    """Return an export of uPic's hosts with a custom host: JSON within JSON within JSON."""
    data = {
        "url": target.upload_url,
        "method": "POST",
        "field": FILE_FIELD,
        "headers": json.dumps([{"key": "Authorization", "value": target.authorization}]),
        "bodys": "[]",
        "resultPath": json.dumps(URL_PATH),
        "domain": "",
        "saveKeyPath": "",
        "suffix": "",
        "useBase64": False,
    }
    host = {"id": target.name, "name": target.name, "type": "custom", "data": json.dumps(data)}
    return _pretty([json.dumps(host)])


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
