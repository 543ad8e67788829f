"""Throw-away certificates for a test, made with the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)


class Authority:
    """Signs certificates in a folder: ``ca.pem``, and ``NAME.pem`` with ``NAME.key``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = str(folder / "ca.pem")
        key = str(folder / "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=test authority", "-keyout", key, "-out", self.certificate)  # fmt: skip

    def issue(self, name: str, names: str = "IP:127.0.0.1", password: str = "") -> tuple[str, str]:
        """The paths of a new certificate and its key, which is encrypted when there is a password."""
        certificate, key = str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key")
        request, extra = str(self.folder / f"{name}.csr"), self.folder / f"{name}.ext"
        extra.write_text(f"subjectAltName={names}\n")
        secret = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", *secret, "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)  # fmt: skip
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", str(self.folder / "ca.key"),
                "-CAcreateserial", "-days", "2", "-extfile", str(extra), "-out", certificate)  # fmt: skip
        return certificate, key

    def server(self, name: str = "server", names: str = "IP:127.0.0.1", *, demand: bool = False) -> ssl.SSLContext:
        """A listener's context; ``demand`` asks clients for a certificate of this authority."""
        certificate, key = self.issue(name, names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if demand:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificate)
        return context
