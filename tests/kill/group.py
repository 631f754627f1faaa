"""Etcd, a name server, and three brokers of one name that elect their primary, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from gantrymq.demo.ports import free_port
from tests.kill.lines import BEHIND, HOST, Lines, Place
from tests.kill.pair import CONF
from tests.support.gantry_process import START_SECONDS, GantryProcess
from tests.support.tied import tied

NAME = "broker-pair"
ETCD, NAMES, CLIENTS, LEFT = "etcd", "names", "clients", "left"
"""Places of lines, beside the brokers. LEFT: clients with doors of their own."""


class Etcd:
    """One node of etcd. ``options``: of its command line. ``tls``: how to connect to it; None: it has no TLS."""

    def __init__(self, root: Path, *options: str, tls: ssl.SSLContext | None = None) -> None:
        self._root = root
        self._options = options
        self._tls = tls
        self.scheme = "http" if tls is None else "https"
        self.port, self._peers = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def is_here() -> bool:
        return shutil.which("etcd") is not None

    def start(self) -> None:
        """Return when it answers."""
        here, peers = f"{self.scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peers}"
        with (self._root / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                tied(["etcd", "--data-dir", str(self._root / "etcd"), "--listen-client-urls", here,
                 "--advertise-client-urls", here, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                 "--initial-cluster", f"default={peers}", *self._options]),
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        begun = time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"{here}/health", timeout=1, context=self._tls).close()
                return
            except OSError:
                if time.monotonic() - begun > START_SECONDS:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Member(GantryProcess):
    """A broker of the group, and its store."""

    def __init__(self, root: Path, number: int, name_servers: str, etcd: int, **settings: Any) -> None:
        root.mkdir(parents=True)
        super().__init__(root / "broker.log")
        self.port, self.ha_port, self.number = free_port(), free_port(), number
        self.store = root / "store"
        self._conf = root / "broker.conf"
        text = CONF.format(
            name_servers=name_servers, store=self.store, port=self.port, ha_port=self.ha_port, role="SLAVE",
            number=number,
        )  # fmt: skip
        own = {"etcdAddr": f"127.0.0.1:{etcd}", "slaveTimeout": 3000, **settings}
        lines = [line for line in text.splitlines() if line.partition("=")[0] not in own]
        self._conf.write_text("\n".join([*lines, *(f"{key}={value}" for key, value in own.items())]))

    def serve(self, *words: str) -> None:
        """``words``: further ones of the command line."""
        self.start("broker", "-c", str(self._conf), *words)

    @property
    def runs(self) -> bool:
        return self._process is not None

    def pause(self) -> None:
        """It keeps its connections, and does nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class Group:
    """All of them. ``settings``: of each broker. ``lines``: everything that brokers and clients say goes over them."""

    def __init__(self, root: Path, size: int = 3, lines: Lines | None = None, **settings: Any) -> None:
        self.etcd = Etcd(root)
        self._name_server = GantryProcess(root / "nameserver.log")
        self._port = free_port()
        self.name_servers = f"127.0.0.1:{self._port}"
        self._lines = lines
        self.members = [self._member(root / str(number), number, settings) for number in range(1, size + 1)]
        if lines is not None:
            lines.owners = self._owners

    def _member(self, root: Path, number: int, settings: dict[str, Any]) -> Member:
        lines = self._lines
        if lines is None:
            return Member(root, number, self.name_servers, self.etcd.port, **settings)
        me = str(number)
        names = f"{HOST}:{lines.door(NAMES, self._port, of=me)}"
        member = Member(
            root, number, names, lines.door(ETCD, self.etcd.port, of=me), **{"bindAddress": BEHIND, **settings}
        )
        for port in (member.port, member.ha_port):
            lines.door(me, port, behind=BEHIND, at=port)
        return member

    def _owners(self) -> dict[int, Place]:
        there = {member.process.pid: str(member.number) for member in self.members if member.process is not None}
        return {os.getpid(): CLIENTS, **there}

    def doors_of(self, place: Place) -> dict[int, int]:
        """Doors for a client that is at a place of its own: port of a broker or name server to the one of its door."""
        lines = self._lines
        assert lines is not None
        doors = {member.port: lines.door(str(member.number), member.port, behind=BEHIND, of=place)
                 for member in self.members}  # fmt: skip
        return {**doors, self._port: lines.door(NAMES, self._port, of=place)}

    def __enter__(self) -> Group:
        self.etcd.start()
        self._name_server.start("nameserver", "-p", str(self._port), "--host", "127.0.0.1")
        for member in self.members:
            member.serve()
        return self

    def __exit__(self, *_: object) -> None:
        for program in (*self.members, self._name_server):
            program.kill()
        self.etcd.kill()

    def record(self) -> dict[str, Any]:
        """As etcd has it."""
        import base64

        key = base64.b64encode(f"/gantrymq/DefaultCluster/{NAME}/primary".encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.etcd.port}/v3/kv/range", json.dumps({"key": key}).encode()
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            kvs = json.load(answer).get("kvs", [])
        return json.loads(base64.b64decode(kvs[0]["value"])) if kvs else {}

    def primary(self) -> Member | None:
        """Whom the record names."""
        number = self.record().get("primary", {}).get("broker_id")
        return next((member for member in self.members if member.number == number), None)
