"""A group with everything that guards it at once: users, TLS on all ports, an etcd with users and TLS.

Its primary is killed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, PullConsumer, TransactionProducer
from gantrymq.broker.replication.election.etcd import EtcdAccess, EtcdRecords
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError
from gantrymq.runtime.tls.certificates import client_context
from tests.kill.group import NAME, Etcd, Member
from tests.runtime.tls.peers import client_tls, file
from tests.support.gantry_process import GantryProcess

pytestmark = [
    pytest.mark.kill, pytest.mark.slow,
    pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)"),
]  # fmt: skip

LIMIT_S: Final = 90.0
ADMIN, INNER = ("admin", "admin-secret"), ("inner", "inner-secret")
USERS: Final[dict[str, Any]] = {
    "authenticationEnabled": "true", "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ADMIN[0], "password": ADMIN[1]}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": INNER[0], "secretKey": INNER[1]}),
}  # fmt: skip
TLS: Final = f"""\
tls.server.mode=enforcing
tls.server.certPath={file("server.pem")}
tls.server.keyPath={file("server.key")}
tls.enable=true
tls.client.trustCertPath={file("authority.pem")}
"""
CLIENT: Final[dict[str, Any]] = {
    "access_key": ADMIN[0], "secret_key": ADMIN[1], "tls": True, "tls_trust_cert_path": file("authority.pem"),
}  # fmt: skip
TOPIC: Final = "orders"


class Guarded:
    """Three brokers, a name server and etcd. None of them talks to anybody who has no account, or without TLS."""

    def __init__(self, root: Path) -> None:
        self._tls = root / "tls.properties"
        self._tls.write_text(TLS)
        password = root / "etcd-password"
        password.write_text("g")
        shown = client_tls()
        self.etcd = Etcd(
            root, "--cert-file", file("server.pem"), "--key-file", file("server.key"), tls=client_context(shown)
        )
        address = f"https://127.0.0.1:{self.etcd.port}"
        self.records = EtcdRecords(
            (address,), "DefaultCluster", NAME, 2.0, EtcdAccess("gantrymq", str(password), client_tls())
        )
        self._names, port = GantryProcess(root / "nameserver.log"), free_port()
        self.name_servers = f"127.0.0.1:{port}"
        self._names_conf = root / "namesrv.conf"
        self._names_conf.write_text("".join(
            f"{key}={value}\n"
            for key, value in {**USERS, "listenPort": port, "bindAddress": "127.0.0.1",
                               "authConfigPath": root / "names"}.items()
        ))  # fmt: skip
        own = {
            **USERS, "etcdAddr": address, "etcdUser": "gantrymq", "etcdPasswordFile": password,
            "etcdTrustCertPath": file("authority.pem"),
        }  # fmt: skip
        self.members = [
            Member(root / str(number), number, self.name_servers, self.etcd.port, **own) for number in (1, 2, 3)
        ]

    def start(self) -> None:
        self.etcd.start()
        with_users(self.etcd)
        self._names.start("nameserver", "-c", str(self._names_conf), "--tls-config", str(self._tls))
        for member in self.members:
            member.serve("--tls-config", str(self._tls))

    def kill(self) -> None:
        for program in (*self.members, self._names):
            program.kill()
        self.etcd.kill()

    def primary(self) -> Member | None:
        with contextlib.suppress(GantryError):
            record = asyncio.run(self.records.read()).record
            if record is not None:
                return next(one for one in self.members if one.number == record.primary.broker_id)
        return None


def with_users(etcd: Etcd) -> None:
    """One who may read and write the record of the group, and nothing else; and ``root``."""

    def tell(path: str, **body: Any) -> None:
        request = urllib.request.Request(f"https://127.0.0.1:{etcd.port}/v3/{path}", json.dumps(body).encode())
        urllib.request.urlopen(request, timeout=20, context=client_context(client_tls())).close()

    key = base64.b64encode(f"/gantrymq/DefaultCluster/{NAME}/primary".encode()).decode()
    for name in ("root", "gantrymq"):
        tell("auth/user/add", name=name, password=name[0])
    tell("auth/role/add", name="broker")
    tell("auth/role/grant", name="broker", perm={"permType": "READWRITE", "key": key})
    tell("auth/user/grant", user="gantrymq", role="broker")
    tell("auth/user/grant", user="root", role="root")
    tell("auth/enable")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Guarded]:
    found = Guarded(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.kill()


class Decided:
    """Commits everything."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.asked.append(message.body)
        return LocalTransactionState.COMMIT


def test_the_primary_is_killed_and_everything_goes_on(group: Guarded) -> None:
    listener = Decided()
    with (
        TransactionProducer("g", name_servers=group.name_servers, listener=listener, **CLIENT) as producer,
        PullConsumer(name_servers=group.name_servers, **CLIENT) as consumer,
    ):
        sent(producer, b"before")
        victim = group.primary()
        assert victim is not None
        victim.kill()
        sent(producer, b"after")
        assert group.primary() not in (None, victim)
        pulled = {queue: consumer.pull(queue, 0, wait_ms=0) for queue in consumer.queues(TOPIC)}
        found = [message.body for answer in pulled.values() for message in answer.messages]
        assert sorted(found) == sorted(set(found)) and {b"before", b"after"} <= set(found), pulled
    wrong = {**CLIENT, "secret_key": "wrong"}
    with Producer("p", name_servers=group.name_servers, **wrong) as stranger, pytest.raises(GantryError):
        stranger.send(Message(TOPIC, b"wrong"))


def sent(producer: TransactionProducer, body: bytes) -> None:
    """As soon as there is a primary, and enough replicas. Until there are, a half message counts as not stored, and is
    rolled back."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            result = producer.send_in_transaction(Message(TOPIC, body))
            if result.decided and result.state is LocalTransactionState.COMMIT:
                return
        except GantryError:
            pass
        assert time.monotonic() < deadline, f"{body.decode()} was not committed"
        time.sleep(0.1)
