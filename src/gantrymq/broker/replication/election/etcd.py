"""The record in etcd, through its JSON gateway (``/v3/kv/...``), which each of its nodes has at the port for clients.

Source: etcd's API, "gRPC gateway"; it holds for etcd 3.4 and later. A read without ``serializable`` is linearizable.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Final

from gantrymq.broker.replication.election.record import Record, decode, encode
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.errors import RemoteProtocolError, TimedOut, Unreachable

FOLDER: Final = "/gantrymq"
JSON: Final = {"Content-Type": "application/json"}
MAX_ANSWER_BYTES: Final = 1 << 20


class EtcdRecords:
    """``urls``: of the nodes, without a path. ``timeout_s``: for one node; the next one is tried then."""

    def __init__(self, urls: tuple[str, ...], cluster: str, name: str, timeout_s: float) -> None:
        self._urls = list(urls)
        self._timeout_s = timeout_s
        self.key: Final = f"{FOLDER}/{cluster}/{name}/primary"
        self._key = _b64(self.key.encode())
        self._tls = ssl.create_default_context() if any(url.startswith("https:") for url in urls) else None

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
                return await asyncio.to_thread(self._post, f"{url.rstrip('/')}/v3/{path}", data)
            except (Unreachable, TimedOut) as error:
                self._urls.append(self._urls.pop(0))
                was_refused = isinstance(error.__cause__, urllib.error.URLError) and isinstance(
                    error.__cause__.reason, ConnectionRefusedError
                )
                if not left or not (twice or was_refused):
                    raise
        raise AssertionError("there is no node")  # the settings name one at least

    def _post(self, url: str, data: bytes) -> dict[str, Any]:
        request = urllib.request.Request(url, data, JSON)  # the scheme was checked
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._tls) as answer:  # nosec B310
                text = answer.read(MAX_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            # A node that has lost the others says so with a status; another node may answer.
            raise Unreachable(url, f"etcd says {error.code}: {error.read(500).decode('utf-8', 'replace')}") from error
        except TimeoutError as error:
            raise TimedOut(f"etcd at {url} answers", int(self._timeout_s * 1000)) from error
        except (OSError, urllib.error.URLError) as error:
            raise Unreachable(url, str(error)) from error
        try:
            found = json.loads(text)
        except ValueError as error:
            raise RemoteProtocolError(f"{url} does not answer as etcd does: {text[:100]!r}") from error
        if not isinstance(found, dict):
            raise RemoteProtocolError(f"{url} does not answer as etcd does: {text[:100]!r}")
        return found


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
