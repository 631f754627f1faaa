"""The record in etcd, through its JSON gateway (``/v3/kv/...``), which each of its nodes has at the port for clients.

Where etcd has users, a token is got by name and password, and sent with each request. It ends after minutes without
use, when etcd starts anew, and when users change. A request with one that has ended is refused and was not executed; it
is sent again with a new one. The gateway knows nobody by a certificate, so a certificate alone makes no user.

Source: etcd's API, "gRPC gateway" and "authentication"; it holds for etcd 3.4 and later. A read without
``serializable`` is linearizable.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gantrymq.broker.config_sections import ReplicationSettings
from gantrymq.broker.replication.election.record import Record, decode, encode
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.errors import ConfigError, GantryError, RemoteProtocolError, TimedOut, Unreachable
from gantrymq.runtime.tls.certificates import ClientCertificates
from gantrymq.runtime.tls.settings import ClientTls

FOLDER: Final = "/gantrymq"
JSON: Final = {"Content-Type": "application/json"}
MAX_ANSWER_BYTES: Final = 1 << 20
PASSWORD_TURNS: Final = 4
"""etcd makes a password slow to try, so it may take so many times as long for a token as for anything else."""
# Codes of gRPC, which the gateway's errors name.
FAILED_PRECONDITION, PERMISSION_DENIED, UNAUTHENTICATED = 9, 7, 16
OLD_TOKEN: Final = "revision of auth store is old"
NO_USER: Final = "user name is empty"


class TokenEnded(GantryError):
    """A request was not executed, because its token counts no more."""


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """As whom etcd is asked, and how it is known."""

    user: str = ""
    """Empty: etcd has no users."""
    password_file: str = ""
    tls: ClientTls = field(default_factory=ClientTls)
    """For addresses with ``https://``."""

    def password(self) -> str:
        """As the file has it now. Raises ConfigError."""
        try:
            return Path(self.password_file).read_text("utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read etcdPasswordFile {self.password_file}: {error}") from error


def access_of(settings: ReplicationSettings) -> EtcdAccess:
    """What the settings of a broker say."""
    tls = ClientTls(
        trust_cert_path=settings.etcd_trust_cert_path,
        cert_path=settings.etcd_cert_path,
        key_path=settings.etcd_key_path,
    )
    return EtcdAccess(settings.etcd_user, settings.etcd_password_file, tls)


class EtcdRecords:
    """``urls``: of the nodes, without a path. ``timeout_s``: for one node; the next one is tried then. Raises
    ConfigError when a file that ``access`` names cannot be used."""

    def __init__(
        self, urls: tuple[str, ...], cluster: str, name: str, timeout_s: float, access: EtcdAccess | None = None
    ) -> None:
        self._access = access or EtcdAccess()
        if self._access.user:
            self._access.password()
        self._token = ""  # nosec B105 # there is none yet
        self._urls = list(urls)
        self._timeout_s = timeout_s
        self.key: Final = f"{FOLDER}/{cluster}/{name}/primary"
        self._key = _b64(self.key.encode())
        with_tls = any(url.startswith("https:") for url in urls)
        self._certificates = ClientCertificates(self._access.tls, check_names=True) if with_tls else None

    async def read(self) -> Held:
        """See ``RecordStore``."""
        answer = await self._ask("kv/range", {"key": self._key}, twice=True)
        for found in answer.get("kvs", ()):
            return Held(decode(base64.b64decode(found["value"])), int(found["mod_revision"]))
        return Held(None, NEVER)

    async def replace(self, held: Held, record: Record) -> Held | None:
        """See ``RecordStore``."""
        answer = await self._ask("kv/txn", {
            "compare": [{"target": "MOD", "key": self._key, "mod_revision": str(held.revision)}],
            "success": [{"requestPut": {"key": self._key, "value": _b64(encode(record))}}],
        }, twice=False)  # fmt: skip
        if not answer.get("succeeded"):
            return None
        return Held(record, int(answer["header"]["revision"]))

    async def _ask(self, path: str, body: dict[str, Any], *, twice: bool) -> dict[str, Any]:
        """The answer of the first node that gives one; it is asked first from then on. ``twice``: whether it may be
        executed twice, by a node that was silent and by the next one."""
        data = json.dumps(body).encode()
        for left in range(len(self._urls) - 1, -1, -1):
            url = self._urls[0]
            try:
                return await self._with_token(url.rstrip("/"), path, data)
            except (Unreachable, TimedOut) as error:
                self._urls.append(self._urls.pop(0))
                was_refused = isinstance(error.__cause__, urllib.error.URLError) and isinstance(
                    error.__cause__.reason, ConnectionRefusedError
                )
                if not left or not (twice or was_refused):
                    raise
        raise AssertionError("there is no node")  # the settings name one at least

    async def _with_token(self, url: str, path: str, data: bytes) -> dict[str, Any]:
        if self._access.user and not self._token:
            await self._authenticate(url)
        try:
            return await asyncio.to_thread(self._post, f"{url}/v3/{path}", data, self._timeout_s)
        except TokenEnded:
            await self._authenticate(url)
        try:
            return await asyncio.to_thread(self._post, f"{url}/v3/{path}", data, self._timeout_s)
        except TokenEnded as error:
            raise Unreachable(url, f"etcd takes none of its own tokens: {error}") from error

    async def _authenticate(self, url: str) -> None:
        """Get a token. Raises RemoteProtocolError, which says what to do, when etcd does not know this user."""
        self._token = ""  # nosec B105 # there is none yet
        access = self._access
        try:
            words = json.dumps({"name": access.user, "password": access.password()}).encode()
        except ConfigError as error:
            raise RemoteProtocolError(str(error)) from error
        path, timeout_s = f"{url}/v3/auth/authenticate", self._timeout_s * PASSWORD_TURNS
        answer = await asyncio.to_thread(self._post, path, words, timeout_s)
        self._token = str(answer.get("token", ""))

    def _refused(self, url: str, status: int, text: str) -> GantryError:
        """What an answer with an error means."""
        code, said = _error_of(text)
        user = self._access.user
        if user and (code == UNAUTHENTICATED or OLD_TOKEN in said):
            return TokenEnded(said)
        if url.endswith("/auth/authenticate") and status < 500:
            if code == FAILED_PRECONDITION or "not enabled" in said:
                return RemoteProtocolError(
                    f"etcd at {url} has no users ({said}): remove etcdUser, or enable them (etcdctl auth enable)"
                )
            return RemoteProtocolError(
                f"etcd at {url} does not know the user {user} by this password ({said}): compare etcdUser and the file "
                "that etcdPasswordFile names with what `etcdctl user get` and the operator of etcd say"
            )
        if NO_USER in said or code == UNAUTHENTICATED:
            return RemoteProtocolError(
                f"etcd at {url} has users ({said}): set etcdUser, and etcdPasswordFile to a file with its password"
            )
        if code == PERMISSION_DENIED:
            return RemoteProtocolError(
                f"the user {user} of etcd may not read and write {self.key} ({said}): `etcdctl role grant-permission "
                f"ROLE readwrite {self.key}`, and `etcdctl user grant-role {user} ROLE`"
            )
        # A node that has lost the others says so with a status; another node may answer.
        return Unreachable(url, f"etcd says {status}: {text[:500]}")

    def _post(self, url: str, data: bytes, timeout_s: float) -> dict[str, Any]:
        headers = {**JSON, "Authorization": self._token} if self._token else JSON
        request = urllib.request.Request(url, data, headers)  # the scheme was checked
        tls = None if self._certificates is None else self._certificates.context()
        try:
            with urllib.request.urlopen(request, timeout=timeout_s, context=tls) as answer:  # nosec B310
                text = answer.read(MAX_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            raise self._refused(url, error.code, error.read(2000).decode("utf-8", "replace")) from error
        except TimeoutError as error:
            raise TimedOut(f"etcd at {url} answers", int(timeout_s * 1000)) from error
        except (OSError, urllib.error.URLError) as error:
            raise Unreachable(url, str(error)) from error
        try:
            found = json.loads(text)
        except ValueError as error:
            raise RemoteProtocolError(f"{url} does not answer as etcd does: {text[:100]!r}") from error
        if not isinstance(found, dict):
            raise RemoteProtocolError(f"{url} does not answer as etcd does: {text[:100]!r}")
        return found


def _error_of(text: str) -> tuple[int, str]:
    """Code and words of an error of the gateway; 0 and all of the text when it is none."""
    try:
        found = json.loads(text)
        return int(found.get("code", 0)), str(found.get("message") or found.get("error") or text)
    except (ValueError, AttributeError, TypeError):
        return 0, text[:500]


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
