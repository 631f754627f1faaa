"""A name server, a broker with a gRPC door, and a proxy, each a process that can be killed and started again."""

from __future__ import annotations

from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.support.gantry_process import GantryProcess

BROKER = "broker"
PROXY = "proxy"
CONF = """\
brokerName=broker-doors
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort={listen}
grpcPort={grpc}
namesrvAddr={names}
storePathRootDir={store}
flushDiskType={flush}
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
transactionTimeOut=1000
transactionCheckInterval=1000
transactionCheckMax=100
"""
"""Files are small, so that some kills come when a file is full. Times are short, so that there are checks."""


class Program:
    """One ``gantry`` command, with the words of all its starts."""

    def __init__(self, log: Path, words: list[str]) -> None:
        self._process = GantryProcess(log)
        self._words = words

    def start(self) -> None:
        """Return when it is ready."""
        self._process.start(*self._words)

    def kill(self) -> None:
        """SIGKILL. Harmless when it does not run."""
        self._process.kill()


class Processes:
    """See above."""

    def __init__(self, root: Path, flush: str = "ASYNC_FLUSH") -> None:
        root.mkdir(parents=True, exist_ok=True)
        names, listen, door, proxy = (free_port() for _ in range(4))
        self.name_servers = f"127.0.0.1:{names}"
        self.doors = {BROKER: f"127.0.0.1:{door}", PROXY: f"127.0.0.1:{proxy}"}
        """The two doors of gRPC."""
        conf = root / "broker.conf"
        conf.write_text(
            CONF.format(listen=listen, grpc=door, names=self.name_servers, store=root / "store", flush=flush)
        )
        self._names = Program(root / "names.log", ["nameserver", "--listen-port", str(names), "--host", "127.0.0.1"])
        self._killed = {
            BROKER: Program(root / "broker.log", ["broker", "--config", str(conf)]),
            PROXY: Program(
                root / "proxy.log",
                ["proxy", "-n", self.name_servers, "--grpc-port", str(proxy), "--bind", "127.0.0.1"],
            ),
        }

    def start(self) -> None:
        for program in (self._names, *self._killed.values()):
            program.start()

    def kill(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._killed[name].kill()

    def start_again(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._killed[name].start()

    def close(self) -> None:
        for program in (*self._killed.values(), self._names):
            program.kill()
