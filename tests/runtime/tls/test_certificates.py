"""Certificates and keys in files: what is wrong with them, and new ones while a server runs."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
from pathlib import Path

import pytest

from gantrymq.errors import ConfigError
from gantrymq.runtime.tls.certificates import ServerCertificates, client_context
from gantrymq.runtime.tls.settings import ClientTls, ServerTls
from tests.runtime.tls.peers import FILES, Keeper, Server, client_tls, file, server_tls


def test_what_is_wrong_with_a_certificate_is_said(tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for settings, said in {
        server_tls(cert_path="/nowhere.pem"): "cannot read /nowhere.pem: it does not exist",
        server_tls(key_path=str(text)): "cannot use the certificate",
        server_tls(key_path=file("client.key")): "key values mismatch",
        server_tls(key_path=file("server-encrypted.key")): "it is encrypted, and no password is given",
        server_tls(key_path=file("server-encrypted.key"), key_password="wrong"): "its password is wrong",
        server_tls(trust_cert_path=str(text)): "cannot read the trusted certificates",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(said)):
            ServerCertificates(settings)
    with pytest.raises(ConfigError, match=r"cannot read the trusted certificates in /nowhere\.pem"):
        client_context(ClientTls(trust_cert_path="/nowhere.pem"))


def test_an_encrypted_key_is_read_with_its_password() -> None:
    settings = server_tls(key_path=file("server-encrypted.key"), key_password="secret")
    assert ServerCertificates(settings).context().verify_mode is ssl.CERT_NONE
    assert "secret" not in repr(settings)


def test_names_are_compared_where_everybody_may_have_a_certificate() -> None:
    assert client_context(ClientTls()).check_hostname
    assert not client_context(client_tls()).check_hostname


def test_new_files_are_used_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = tmp_path / "server.pem", tmp_path / "server.key"
    shutil.copy(FILES / "server.pem", cert)
    shutil.copy(FILES / "server.key", key)

    async def serial(server: Server) -> str:
        link = await server.connect(client_tls(), Keeper())
        certificate = link._tls.getpeercert()  # type: ignore[attr-defined]
        link.close()
        return str(certificate["serialNumber"])

    async def test() -> None:
        async with Server(ServerTls(cert_path=str(cert), key_path=str(key))) as server:
            old = await serial(server)
            cert.write_text("half a file")
            assert await serial(server) == old
            assert "the certificate that was read before stays in use" in caplog.text
            shutil.copy(FILES / "renewed.pem", cert)
            assert await serial(server) == old  # its key is still the old one
            shutil.copy(FILES / "renewed.key", key)
            assert await serial(server) != old
            cert.unlink()
            assert await serial(server) != old

    asyncio.run(test())
    assert "new certificates are in use" in caplog.text
