"""Every byte that servers and clients with TLS put on the wire belongs to a record of TLS.

Servers listen on 127.0.0.2 and announce 127.0.0.1, where proxies check what passes. So this sees what the operating
system was given, whichever code gave it.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import (
    ConsumeFromWhere,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    TransactionProducer,
)
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError
from tests.cli.test_serve import program
from tests.interop.process import poll
from tests.runtime.tls.peers import file
from tests.runtime.tls.records import CheckingProxy, NotTls, Records

BEHIND, SHOWN = "127.0.0.2", "127.0.0.1"
MESSAGES = 400
TRUST = file("authority.pem")
TLS = f"""tls.server.mode=enforcing
tls.server.certPath={file("server.pem")}
tls.server.keyPath={file("server.key")}
tls.enable=true
tls.client.trustCertPath={TRUST}
"""


@contextlib.contextmanager
def checked(*ports: int) -> Iterator[list[CheckingProxy]]:
    proxies = [CheckingProxy((SHOWN, port), (BEHIND, port)) for port in ports]
    try:
        yield proxies
    finally:
        for proxy in proxies:
            proxy.close()


class Listener:
    """Commits, or leaves it to the check."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        later = message.body.startswith(b"later")
        return LocalTransactionState.UNKNOWN if later else LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_nothing_but_records_under_load(tmp_path: Path) -> None:
    config, tls = tmp_path / "broker.conf", tmp_path / "tls.properties"
    names, port, http = free_port(), free_port(), free_port()
    tls.write_text(TLS)
    config.write_text(
        f"bindAddress={BEHIND}\nbrokerIP1={SHOWN}\nlistenPort={port}\nhttpPort={http}\nhttpBindAddress={BEHIND}\n"
        "transactionTimeOut=300\ntransactionCheckInterval=500\nflushDiskType=ASYNC_FLUSH\n"
    )
    given = ("--tls-config", str(tls))
    where = ("--listen-port", str(names), "--host", BEHIND)
    store = ("--store", str(tmp_path / "store"), "--config", str(config), "--namesrv-addr", f"{SHOWN}:{names}")
    with checked(names, port, http) as proxies, program("nameserver", *where, *given) as name_server:
        name_server.ready()
        with program("broker", *store, *given) as broker:
            broker.ready()
            try:
                load(f"{SHOWN}:{names}")
            except GantryError:
                assert not any(proxy.problems for proxy in proxies), [proxy.problems for proxy in proxies]
                raise
            trusting = ssl.create_default_context(cafile=TRUST)
            trusting.check_hostname = False
            with urllib.request.urlopen(f"https://{SHOWN}:{http}/metrics", context=trusting, timeout=30) as answer:
                assert re.search(rb"rocketmq_messages_in_total\{.*\} \d+", answer.read())
    for proxy in proxies:
        poll(lambda proxy=proxy: proxy.answered["data"] > 0, "the end of the connections")  # type: ignore[misc]
        assert proxy.problems == [] and proxy.connections > 0
        assert proxy.sent["data"] > 0 and set(proxy.sent) | set(proxy.answered) <= {
            "handshake",
            "data",
            "alert",
            "change of keys",
        }
    assert proxies[1].sent["data"] > MESSAGES / 20, "that was no load"


def load(name_servers: str) -> None:
    """Sends, transactions with check-back, and a consumer that gets all of it."""
    secure = {"name_servers": name_servers, "tls": True, "tls_trust_cert_path": TRUST}
    got: set[bytes] = set()

    def consume(messages: list[MessageView]) -> None:
        got.update(message.body[:20] for message in messages)

    wanted = {f"body {number:05}".encode() for number in range(MESSAGES)}
    wanted |= {f"{kind} {number:05}".encode() for kind in ("now", "later") for number in range(10)}
    with (
        Producer("WireP", **secure) as producer,  # type: ignore[arg-type]
        TransactionProducer("WireT", listener=Listener(), **secure) as transactions,  # type: ignore[arg-type]
    ):
        for number in range(MESSAGES):
            size = 200_000 if number % 50 == 0 else 100
            producer.send(Message("Wire", f"body {number:05}".encode().ljust(20) + bytes(size)))
        for kind in ("now", "later"):
            for number in range(10):
                transactions.send_in_transaction(Message("Wire", f"{kind} {number:05}".encode()))
        consumer = PushConsumer(
            "WireC", listener=consume, from_where=ConsumeFromWhere.FIRST_OFFSET, **secure,  # type: ignore[arg-type]
        )  # fmt: skip
        with consumer.subscribe("Wire"):
            poll(lambda: {body.rstrip() for body in got} >= wanted, "all messages")


@pytest.mark.parametrize("plain", [b"\0\0\1\0plain", b"GET / HTTP/1.1", b"\x17\x03\x03\xff\xff"])
def test_other_bytes_are_found_wherever_they_are(plain: bytes) -> None:
    record = b"\x17\x03\x03\x00\x04data"
    good = Records()
    for piece in (record * 3, record[:2], record[2:7], record[7:] + record):
        good.feed(piece)
    assert good.counts == {"data": 5}
    with pytest.raises(NotTls):
        good.feed(plain)
