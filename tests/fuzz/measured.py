"""A broker or a name server in a process of its own, which says on request how long its event loop stood still.

    python -m tests.fuzz.measured broker DIRECTORY

A line ``reset`` on standard input begins a measurement, ``read`` ends it with one line of JSON: ``longest_s`` of the
wall clock, ``work_s`` of the thread (not disturbed by other processes), ``memory_mb``, the most so far.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from gantrymq.broker.broker import Broker
from gantrymq.demo.ports import free_port
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.signature import Account
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.loop_watch import LoopWatch
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import broker_config

LOOK_S = 0.002
USER = "root:fuzz-sizes"
ADMIN = Account("admin", "admin-secret")
GUARDED: dict[str, object] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key}),
}
"""Settings of the broker that has users."""


async def serve(program: str, directory: Path, name_server: str) -> None:
    """Until standard input ends."""
    http = ""
    if program == "nameserver":
        config = NameServerConfig(listen_host="127.0.0.1", listen_port=0, kv_config_path=str(directory / "kv.json"))
        running: NameServer | Broker = NameServer(config, TcpNetwork(), SystemClock(), OsDisk())
        address = await running.start()
    else:
        settings = broker_config(
            directory / program, namesrv_addr=name_server, enable_property_filter=True, http_port=free_port(),
            broker_name=program, auto_create_topic_enable=True, **(GUARDED if program == "guarded" else {}),
        )  # fmt: skip
        running = Broker(settings, TcpNetwork(), SystemClock(), SystemRng(), OsDisk())
        address = await running.start()
        door = running.door("http")
        http = "" if door is None else door.address
    watch = LoopWatch(SystemClock(), interval_s=LOOK_S, working=SystemClock.worked)
    watch.start()
    print(json.dumps({"address": address, "http": http}), flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, command, watch, ended)
    await ended.wait()
    watch.stop()
    await running.close()


def command(watch: LoopWatch, ended: asyncio.Event) -> None:
    line = os.read(0, 100).decode().strip()
    if line == "reset":
        watch.reset()
        print("{}", flush=True)
    elif line == "read":
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        found = {"longest_s": watch.longest_s(), "work_s": watch.longest_work_s, "memory_mb": memory}
        print(json.dumps(found), flush=True)
    else:
        ended.set()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""))
