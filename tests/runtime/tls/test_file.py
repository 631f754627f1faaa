"""The file of TLS settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantrymq.errors import ConfigError
from gantrymq.runtime.tls.file import TlsFile, read_tls_file, tls_file_of
from gantrymq.runtime.tls.settings import ClientAuth, ClientTls, ServerTls, TlsMode

WHOLE = """
# As RocketMQ's
tls.test.mode.enable=false
tls.server.mode=enforcing
tls.server.certPath=/s.pem
tls.server.keyPath=/s.key
tls.server.keyPassword=1234
tls.server.need.client.auth=require
tls.server.authClient=true
tls.server.trustCertPath=/ca.pem
tls.enable=true
tls.client.certPath=/c.pem
tls.client.keyPath=/c.key
tls.client.keyPassword=5678
tls.client.authServer=false
tls.client.trustCertPath=/ca.pem
"""


def test_all_keys(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(WHOLE)
    assert read_tls_file(path) == TlsFile(
        ServerTls(
            mode=TlsMode.ENFORCING, cert_path="/s.pem", key_path="/s.key", key_password="1234",
            client_auth=ClientAuth.REQUIRE, trust_cert_path="/ca.pem",
        ),
        ClientTls(trust_cert_path="/ca.pem", cert_path="/c.pem", key_path="/c.key", key_password="5678", verify=False),
    )  # fmt: skip


def test_a_part_that_is_not_switched_on_is_left_out() -> None:
    assert tls_file_of({}, "f") == TlsFile(None, None)
    assert tls_file_of({"tls.client.trustCertPath": "/ca.pem"}, "f") == TlsFile(None, None)
    assert tls_file_of({"tls.enable": "true"}, "f") == TlsFile(None, ClientTls())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tls.server.mode": "on"}, "f: tls.server.mode is 'on'; write disabled, permissive, enforcing"),
        ({"tls.server.mode": "enforcing"}, "f: tls.server.mode is enforcing, so a server needs a certificate"),
        ({"tls.enable": "yes"}, "f: tls.enable is 'yes'; write true or false"),
        ({"tls.server.certpath": "/s.pem"}, "f: tls.server.certpath is not known; did you mean tls.server.certPath"),
        ({"unheard": "of"}, "f: unheard is not known; the keys are tls.server.mode"),
        (
            {"tls.server.certPath": "/s", "tls.server.keyPath": "/k", "tls.server.need.client.auth": "require"},
            "set tls.server.trustCertPath",
        ),
        (
            {"tls.enable": "true", "tls.client.keyPath": "/k"},
            "the key of a TLS client is given without its certificate",
        ),
    ],
)
def test_mistakes(values: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        tls_file_of(values, "f")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the TLS settings in"):
        read_tls_file(tmp_path / "nothing")
