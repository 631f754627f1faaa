"""``gantry server --replicas N``: a broker group on one machine that elects its primary, with an etcd of its own.

It is for trying: one machine is one place where all copies are lost. Everything is started again when it dies, as with
``--brokers``.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.config_sections import urls_of
from gantrymq.broker.replication.election.etcd import EtcdRecords, access_of
from gantrymq.cli.serving.supervise import PORT_STEP, Plan
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.addresses import LOOPBACK

REPLICAS_MAX: Final = 9
LOOK_S: Final = 0.2
ELECTED_S: Final = 60.0
ETCD_STOP_S: Final = 5.0
WITH_US: Final = '"$@" & child=$!; cat >/dev/null; kill $child; wait $child'
"""It ends with this process, however that ends."""
ETCD_LOG: Final = "etcd.log"


def group_plans(count: int, store: Path, settings: BrokerConfig) -> list[Plan]:
    """The brokers of one name in ``<store>/replica-1`` ... Raises ConfigError when that cannot be."""
    if not 2 <= count <= REPLICAS_MAX:
        raise ConfigError(f"--replicas is {count}; write a number from 2 to {REPLICAS_MAX}, as 3")
    first, network = settings.network.listen_port, settings.network
    if first and first + (count - 1) * PORT_STEP + 1 > 65_535:
        raise ConfigError(f"{count} replicas from port {first} on need ports above 65535; begin lower")
    if (store / "commitlog").exists() or (store / "broker-0").exists():
        raise ConfigError(f"{store} holds the messages of brokers without replicas; give another --store")
    return [
        Plan(
            settings.identity.broker_name,
            store / f"replica-{number + 1}",
            first + number * PORT_STEP if first else free_port(),
            network.http_port + number if network.http_port else 0,
            network.grpc_port + number if network.grpc_port else 0,
        )
        for number in range(count)
    ]


def write_config(plan: Plan, number: int, etcd: str, given: Path | None) -> Path:
    """The ``broker.conf`` of one of them, over the one that was given. ``number``: its brokerId."""
    own = {
        "brokerRole": "SLAVE", "brokerId": number, "haListenPort": plan.port + 1 if plan.port else 0, "etcdAddr": etcd,
    }  # fmt: skip
    text = "" if given is None else given.read_text(encoding="utf-8").rstrip() + "\n"
    plan.store.mkdir(parents=True, exist_ok=True)
    path = plan.store / "broker.conf"
    path.write_text(text + "".join(f"{key} = {value}\n" for key, value in own.items()), encoding="utf-8")
    return path


@asynccontextmanager
async def running_etcd(root: Path) -> AsyncIterator[str]:
    """One node of etcd, with its data in ``<root>/etcd``. Gives its address. Raises ConfigError where it is missing."""
    program = shutil.which("etcd")
    if program is None:
        raise ConfigError(
            "--replicas needs etcd, and there is none on this machine: install it (Debian: etcd-server), or set "
            "etcdAddr in the file of --config"
        )
    root.mkdir(parents=True, exist_ok=True)
    here, peers = (f"http://{LOOPBACK}:{free_port()}" for _ in range(2))
    with (root / ETCD_LOG).open("ab") as log:
        words = [
            program, "--data-dir", str(root / "etcd"), "--listen-client-urls", here, "--advertise-client-urls", here,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}", "--force-new-cluster",
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", WITH_US, "sh", *words,
            stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield here.removeprefix("http://")
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), ETCD_STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def elected(settings: BrokerConfig, etcd: str) -> str:
    """The address of the primary, as soon as there is one. Raises GantryError when there is none in time."""
    identity = settings.identity
    access = access_of(settings.replication)
    records = EtcdRecords(urls_of(etcd), identity.broker_cluster_name, identity.broker_name, 1.0, access)
    async with asyncio.timeout(ELECTED_S):
        while True:
            with contextlib.suppress(GantryError):
                record = (await records.read()).record
                if record is not None:
                    return record.primary.address
            await asyncio.sleep(LOOK_S)
