"""``gantry server`` in a process of its own, which is killed with SIGKILL and started again on the same store."""

from __future__ import annotations

from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.support.gantry_process import GantryProcess

CONF = """\
brokerName=broker-kill
brokerIP1={host}
listenPort={broker_port}
namesrvAddr={host}:{name_server_port}
storePathRootDir={store}
flushDiskType={flush}
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
transactionTimeOut=1000
transactionCheckInterval=1000
transactionCheckMax=5
"""
"""Files are small, so that some kills come when a file is full. Times are short, so that there are checks."""


class Server:
    """One store and the process that serves it."""

    def __init__(self, root: Path, flush: str, more: str = "", host: str = "127.0.0.1") -> None:
        """``more``: further lines of the configuration. ``host``: where broker and name server listen."""
        self._host = host
        self.store = root / "store"
        self.log = root / "server.log"
        self._conf = root / "broker.conf"
        self.name_server_port, self.broker_port = free_port(), free_port()
        self.name_servers = f"{host}:{self.name_server_port}"
        root.mkdir(parents=True, exist_ok=True)
        self._conf.write_text(
            CONF.format(
                host=host,
                broker_port=self.broker_port,
                name_server_port=self.name_server_port,
                store=self.store,
                flush=flush,
            )
            + more
        )
        self._process = GantryProcess(self.log)

    def start(self) -> float:
        """Start the process and wait until it is ready: it listens, and its broker is registered. Returns the time in
        seconds."""
        return self._process.start(
            "server", "-c", str(self._conf), "--name-server-port", str(self.name_server_port), "--host", self._host
        )

    def kill(self) -> None:
        """Send SIGKILL, if the process is running."""
        self._process.kill()

    def stop(self) -> None:
        """Stop the process in an orderly way."""
        self._process.stop()
