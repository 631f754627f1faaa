"""A name server, a primary and its replica, each in a process of its own that is killed with SIGKILL."""

from __future__ import annotations

from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.support.gantry_process import GantryProcess

CONF = """\
brokerName=broker-pair
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
namesrvAddr={name_servers}
storePathRootDir={store}
listenPort={port}
brokerRole={role}
brokerId={number}
haListenPort={ha_port}
slaveTimeout=30000
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
transactionTimeOut=1000
transactionCheckInterval=1000
"""
"""Files are small, so that the log has several. Times are short, so that what is open is checked soon."""


class Machine(GantryProcess):
    """A store, and the broker that serves it in whatever role."""

    def __init__(self, root: Path, name_servers: str) -> None:
        root.mkdir(parents=True)
        super().__init__(root / "broker.log")
        self.store = root / "store"
        self._conf = root / "broker.conf"
        self._name_servers = name_servers
        self._port, self._ha_port = free_port(), free_port()

    def serve(self, role: str, number: int | None = None) -> None:
        """Start the broker as ASYNC_MASTER, SYNC_MASTER or SLAVE. ``number``: brokerId, when it is not the usual one.
        ``brokerRole`` of the last start counts no longer."""
        self._conf.write_text(
            CONF.format(
                name_servers=self._name_servers, store=self.store, port=self._port, ha_port=self._ha_port, role=role,
                number=int(role == "SLAVE") if number is None else number,
            )
        )  # fmt: skip
        self.start("broker", "-c", str(self._conf))


class Pair:
    """Two machines, and the name server that knows them."""

    def __init__(self, root: Path) -> None:
        self._name_server = GantryProcess(root / "nameserver.log")
        self._port = free_port()
        self.name_servers = f"127.0.0.1:{self._port}"
        self.machines = [Machine(root / name, self.name_servers) for name in ("a", "b")]

    def __enter__(self) -> Pair:
        self._name_server.start("nameserver", "-p", str(self._port), "--host", "127.0.0.1")
        return self

    def __exit__(self, *_: object) -> None:
        for program in (*self.machines, self._name_server):
            program.kill()
