"""The interop tests once more, with TLS that is enforced: ``pytest tests/interop --tls``.

Then every server of ours takes only connections with TLS and a certificate of the client, and every client has one:
ours by the environment, Java's by properties of the system. Left out are the tests with servers of Apache, which are
not what is tested, and those of the Go client, whose release has no TLS (``test_tls.py`` has its main branch).
"""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

import pytest

from gantrymq.runtime.tls.certificates import client_context
from gantrymq.runtime.tls.settings import ENVIRONMENT
from tests.runtime.tls.peers import client_tls, file

SERVER = f"""tls.test.mode.enable=false
tls.server.certPath={file("server.pem")}
tls.server.keyPath={file("server.key")}
tls.server.trustCertPath={file("authority.pem")}
"""
OURS = f"""{SERVER}tls.server.mode=enforcing
tls.server.need.client.auth=require
tls.enable=true
tls.client.trustCertPath={file("authority.pem")}
tls.client.certPath={file("client.pem")}
tls.client.keyPath={file("client.key")}
"""
JAVA = {
    "tls.enable": "true",
    "tls.test.mode.enable": "false",
    "tls.client.authServer": "true",
    "tls.client.trustCertPath": file("authority.pem"),
    "tls.client.certPath": file("client.pem"),
    "tls.client.keyPath": file("client.key"),
}
"""Properties of the system."""

_SWITCH = "GANTRY_INTEROP_TLS"


def switch_on(directory: Path) -> None:
    """For this process and all that it starts."""
    path = directory / "tls.properties"
    path.write_text(OURS)
    os.environ[ENVIRONMENT] = str(path)
    os.environ[_SWITCH] = "1"


def is_on() -> bool:
    return _SWITCH in os.environ


def java_properties() -> dict[str, str]:
    """For every Java process."""
    return JAVA if is_on() else {}


def connection(host: str, port: int, seconds: float) -> socket.socket:
    """A connection to a server of these tests. Raises OSError."""
    plain = socket.create_connection((host, port), seconds)
    if not is_on():
        return plain
    certified = client_tls(cert_path=file("client.pem"), key_path=file("client.key"))
    context: ssl.SSLContext = client_context(certified)
    return context.wrap_socket(plain)


def takes_part(item: pytest.Item) -> bool:
    """Whether the clients of a test can speak TLS."""
    return "go" not in getattr(item, "fixturenames", ())
