"""What a broker has of Apache's controller: its number there, the record of its group, and its heartbeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.outside import Outside
from gantrymq.broker.replication.election.controller.calls import Controller, GroupName, LogEnd
from gantrymq.broker.replication.election.controller.heartbeats import Heartbeats
from gantrymq.broker.replication.election.controller.identity import FILE, number_of
from gantrymq.broker.replication.election.controller.records import ControllerRecords
from gantrymq.broker.replication.election.disk_identity import FILE as DISK_FILE
from gantrymq.broker.replication.election.disk_identity import boot_of_machine, disk_identity
from gantrymq.errors import ConfigError, TimedOut, Unreachable
from gantrymq.remoting.client import RemotingClient

CODE_BYTES: Final = 12


class ControllerMembership:
    """Of one broker."""

    def __init__(self, config: LiveConfig, outside: Outside, client: RemotingClient) -> None:
        identity = config.identity
        self._config = config
        self._outside = outside
        self._controller = Controller(
            client, outside.clock, config.replication.controllers,
            GroupName(identity.broker_cluster_name, identity.broker_name),
        )  # fmt: skip
        self.records: Final = ControllerRecords(self._controller)
        self._heartbeats: Heartbeats | None = None

    async def identify(self, root: str) -> None:
        """Get the number of this broker: from its store at ``root``, or from the controller, the first time. Raises
        ConfigError when no controller answers then, or when something else that it needs is missing."""
        if not self._config.network.name_servers:
            raise ConfigError(
                "with enableControllerMode a replica learns from a name server where the primary's haListenPort is: "
                "set namesrvAddr"
            )
        disk, rng = self._outside.disk, self._outside.rng
        disk.make_dirs(f"{root}/gantry")
        own = disk_identity(
            disk, f"{root}/{DISK_FILE}", rng, boot=boot_of_machine(),
            keeps=self._config.store.flush_disk_type == "SYNC_FLUSH",
        )  # fmt: skip
        try:
            code = rng.token(CODE_BYTES).hex()
            self.records.number = await number_of(self._controller, disk, f"{root}/{FILE}", own, code)
        except (Unreachable, TimedOut) as error:
            raise ConfigError(
                "a controller gives this broker its number at its first start, and none that controllerAddr names does "
                f"so ({error}): start the controllers first, or correct controllerAddr"
            ) from error

    def serve(self, address: str) -> None:
        """``address``: of this broker for clients."""
        self.records.address = address

    def start(self, log_end: Callable[[], LogEnd]) -> None:
        records = self.records
        self._heartbeats = Heartbeats(self._controller, self._outside.clock, records.number, records.address, log_end)
        self._heartbeats.start()

    async def stop(self) -> None:
        if self._heartbeats is not None:
            await self._heartbeats.stop()


def controller_of(config: LiveConfig, outside: Outside, client: RemotingClient) -> ControllerMembership | None:
    """Where the settings name a controller; None: they do not."""
    return ControllerMembership(config, outside, client) if config.replication.enable_controller_mode else None
