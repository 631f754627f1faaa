"""Our name server and brokers as child processes, with the same face as Apache's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.interop import guarded
from tests.interop.apache import SMALL_STORE
from tests.interop.places import await_route
from tests.interop.process import Process

READY = r"is ready: "


class GantryCluster:
    """``gantry nameserver`` and any number of ``gantry broker``, all on 127.0.0.1."""

    kind = "GantryMQ"
    version = ""
    label = "GantryMQ"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name_servers = ""
        self.broker_address = ""
        """Of the broker that was started last."""
        self._running: list[Process] = []
        self._count = 0

    def start_name_server(self, *options: str) -> Process:
        port = free_port()
        if users := guarded.server_settings(self.directory / "names"):
            options = (*options, "--config", str(self._conf(f"names-{port}", users)))
        started = self.gantry("nameserver", "--listen-port", str(port), "--host", "127.0.0.1", *options)
        started.await_line(READY)
        self.name_servers = f"127.0.0.1:{port}"
        return started

    def start_broker(
        self, store: Path | None = None, *, name: str = "broker-a", name_servers: str | None = None, **conf: object
    ) -> Process:
        """A broker that is registered when this returns; ``conf`` goes into its broker.conf."""
        settings = {
            "brokerClusterName": "DefaultCluster", "brokerName": name, "brokerId": "0", "brokerIP1": "127.0.0.1",
            "listenPort": str(free_port()), "namesrvAddr": name_servers or self.name_servers,
            "storePathRootDir": str(store or self.directory / f"store-{name}"), **SMALL_STORE,
            **guarded.server_settings(self.directory / f"users-{name}"),
            **{key: str(value) for key, value in conf.items()},
        }  # fmt: skip
        started = self.gantry("broker", "-c", str(self._conf(f"{name}-{settings['listenPort']}", settings)))
        started.await_line(READY)
        self.broker_address = f"127.0.0.1:{settings['listenPort']}"
        # With users nobody may ask; the ready line comes after the registration.
        for name_server in settings["namesrvAddr"].split(";") if "authenticationEnabled" not in conf else ():
            await_route(name_server, name)
        guarded.take_in(settings["namesrvAddr"])
        return started

    def _conf(self, name: str, settings: Mapping[str, str]) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def gantry(self, *arguments: str) -> Process:
        """Any ``gantry`` command as a process; it is stopped with the cluster."""
        self._count += 1
        command = [sys.executable, "-m", "gantrymq.cli.main", *arguments]
        started = Process(f"gantry-{arguments[0]}-{self._count}", command, self.directory, {"COLUMNS": "200"})
        self._running.append(started)
        return started

    def close(self) -> None:
        """End everything at once: the stores of tests are thrown away, and an orderly stop of a JVM takes long."""
        for process in reversed(self._running):
            process.kill()
