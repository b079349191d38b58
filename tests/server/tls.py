"""A self-signed certificate for servers on loopback."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from attrs import frozen


@frozen
class Certificate:
    """A self-signed certificate for 127.0.0.1."""

    cert: Path
    key: Path

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of `imagehost serve`."""
        return "--tls-cert", str(self.cert), "--tls-key", str(self.key)


def create_certificate(folder: Path) -> Certificate:
    """Create a certificate in a folder; skip the test without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: TLS, because openssl is missing")
    certificate = Certificate(folder / "cert.pem", folder / "key.pem")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(certificate.key), "-out", str(certificate.cert)],
        check=True,
        capture_output=True,
    )
    return certificate
