"""A self-signed certificate for servers on loopback."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from attrs import frozen


@frozen
class Certificate:
    """A self-signed certificate."""

    cert: Path
    key: Path

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of `imagehost serve`."""
        return "--tls-cert", str(self.cert), "--tls-key", str(self.key)


def create_certificate(folder: Path, name: str = "IP:127.0.0.1") -> Certificate:
    """Create a certificate for a name, which is its own authority; skip the test without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: TLS, because openssl is missing")
    certificate = Certificate(folder / "cert.pem", folder / "key.pem")
    # A key of an elliptic curve takes a hundredth of the time of one of RSA.
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost"
    )
    names = ("-subj", "/CN=localhost", "-addext", f"subjectAltName={name}")
    files = ("-keyout", str(certificate.key), "-out", str(certificate.cert))
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return certificate
