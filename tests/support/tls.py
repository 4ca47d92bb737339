"""Self-made certificates for servers on loopback."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Certificate:
    """A certificate that nobody trusts unless told to; `path` has it with its key."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1") -> None:
        folder.mkdir()
        self.path = folder / "server.pem"
        names = f"subjectAltName={'IP' if host[0].isdigit() else 'DNS'}:{host}"
        made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        made += ["-nodes", "-days", "2", "-subj", "/CN=test", "-addext", names]
        files = ["-keyout", str(self.path), "-out", str(folder / "public.pem")]
        subprocess.run([_openssl(), *made, *files], check=True, capture_output=True)
        with self.path.open("a") as file:
            file.write((folder / "public.pem").read_text())

    def server(self) -> ssl.SSLContext:
        """What a server with this certificate needs."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path)
        return context


def _openssl() -> str:
    program = shutil.which("openssl")
    if program:
        return program
    reason = "openssl is not on PATH"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
