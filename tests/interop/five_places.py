"""The doors at which the lines are played: that of our broker, and, as control, Apache's proxy 5.5.0."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gantrymq.admin import Admin
from gantrymq.demo.ports import free_port
from gantrymq.protocol.bodies.access import EntryBody, UserBody
from tests.interop import guarded
from tests.interop.apache import OPS_AT_ONCE, ApacheCluster, JavaProcess
from tests.interop.five_driver import Door
from tests.interop.jars import library
from tests.interop.ours import READY, GantryCluster
from tests.interop.process import Process
from tests.interop.test_permissions import PROVIDERS

CHECKS = {"transactionTimeOut": "3000", "transactionCheckInterval": "3000"}
BOTH = {**CHECKS, "recallMessageEnable": "true", "enablePropertyFilter": "true", "timerWheelEnable": "true"}
OF_APACHE = {
    **OPS_AT_ONCE,
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "mappedFileSizeTimerLog": "52000",
    "popFromRetryProbability": "100",
}
START_S = 400.0
"""For a start of Apache's proxy on a machine that has other work."""
OF_PROXY = {
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
}
"""Apache's proxy asks its brokers for users and policies."""
RIGHTS = {
    "sub-alone": {"Topic:*": ["Sub"], "Group:*": ["Sub"]},
    "pub-alone": {"Topic:*": ["Pub"], "Group:*": ["Sub"]},
    "groupless": {"Topic:*": ["Pub", "Sub"]},
}
"""Users who may not do everything. The secret of each is its name and "-secret"."""
APACHE = "Apache's proxy 5.5.0"


@contextmanager
def our_door(directory: Path, *, second: bool = False, **settings: object) -> Iterator[Door]:
    """Our broker with its door. ``second``: with ``gantry proxy`` before it, too."""
    cluster, port, listen = GantryCluster(directory), free_port(), free_port()
    broker: list[Process] = []

    def start() -> None:
        broker.append(cluster.start_broker(grpcPort=port, listenPort=listen, **BOTH, **settings))  # type: ignore[arg-type]

    def restart() -> float:
        broker[-1].kill()
        dead = time.monotonic()
        start()
        return dead

    try:
        cluster.start_name_server()
        start()
        door = Door(f"localhost:{port}", cluster.name_servers, wait_s=1, invisible_s=3, restart=restart)
        if second:
            door = replace(door, **_our_proxy(cluster))
        yield door
    finally:
        cluster.close()


def _our_proxy(cluster: GantryCluster) -> dict[str, Any]:
    """Start ``gantry proxy`` before it: the second door."""
    port, running = free_port(), list[Process]()

    def start() -> None:
        arguments = ("--name-servers", cluster.name_servers, "--grpc-port", str(port), "--bind", "127.0.0.1")
        running.append(cluster.gantry("proxy", *arguments))
        running[-1].await_line(READY)

    def restart() -> float:
        running[-1].kill()
        dead = time.monotonic()
        start()
        return dead

    start()
    return {"second": f"localhost:{port}", "restart_second": restart}


@contextmanager
def our_guarded_door(directory: Path) -> Iterator[Door]:
    """Our broker with users."""
    cluster, port = GantryCluster(directory), free_port()
    try:
        cluster.start_name_server()
        cluster.start_broker(grpcPort=port, **BOTH, **guarded.USERS, authConfigPath=str(directory / "users"))
        asyncio.run(make_users(cluster.name_servers))
        yield guarded_door(Door(f"localhost:{port}", cluster.name_servers, wait_s=1, invisible_s=3))
    finally:
        cluster.close()


@contextmanager
def apaches_door(directory: Path, *, users: bool = False) -> Iterator[Door]:
    """Two of Apache's proxies before Apache's broker. ``users``: with ACL 2.0; then one. Raises NotHere."""
    cluster, proxies = ApacheCluster("5.5.0", directory), list[Process]()
    own = {**guarded.USERS, **PROVIDERS, "authConfigPath": str(directory / "auth")} if users else {}
    try:
        cluster.start_name_server()
        cluster.start_broker(**BOTH, **OF_APACHE, **own)  # type: ignore[arg-type]
        if users:
            asyncio.run(make_users(cluster.name_servers))
        ports = [_apaches_proxy(cluster, proxies, users=users) for _ in range(1 if users else 2)]
        made = Door(
            f"127.0.0.1:{ports[0]}", cluster.name_servers, wait_s=5, invisible_s=10, patient=True,
            second=f"127.0.0.1:{ports[-1]}",
        )  # fmt: skip
        yield guarded_door(made) if users else made
    finally:
        for proxy in proxies:
            proxy.kill()
        cluster.close()


def _apaches_proxy(cluster: ApacheCluster, proxies: list[Process], *, users: bool) -> int:
    """Start one; its port."""
    port, home = free_port(), cluster.directory / f"proxy-{len(proxies)}"
    (home / "conf").mkdir(parents=True)
    settings: dict[str, object] = {
        "rocketMQClusterName": "DefaultCluster", "namesrvAddr": cluster.name_servers, "grpcServerPort": port,
        "remotingListenPort": free_port(), "proxyMode": "CLUSTER",
    }  # fmt: skip
    if users:
        settings |= {**guarded.USERS, **PROVIDERS, **OF_PROXY, "authConfigPath": str(home / "auth")}
        settings["enableAclRpcHookForClusterMode"] = "true"  # it signs what it asks brokers, by tools.yml
        account = f"accessKey: {guarded.ADMIN.access_key}\nsecretKey: {guarded.ADMIN.secret_key}\n"
        (home / "conf" / "tools.yml").write_text(account)
    (home / "proxy.json").write_text(json.dumps(settings))
    (home / "conf" / "logback_proxy.xml").write_text('<configuration><root level="OFF"/></configuration>\n')
    proxies.append(JavaProcess(
        f"proxy-{len(proxies)}", [library("proxy-5.5.0")], "org.apache.rocketmq.proxy.ProxyStartup",
        ["-pc", str(home / "proxy.json"), "-n", cluster.name_servers, "-pm", "cluster"], home, heap_mb=512,
    ))  # fmt: skip
    proxies[-1].await_line("startup successfully", START_S)
    return port


def guarded_door(door: Door) -> Door:
    """Its drivers are a user with all rights of a client; our own tools are the super user."""
    account = {"access_key": guarded.ADMIN.access_key, "secret_key": guarded.ADMIN.secret_key}
    return replace(door, words=("plain", guarded.APP.access_key, guarded.APP.secret_key), account=account)


async def make_users(name_servers: str) -> None:
    """Those of RIGHTS."""
    async with Admin(name_servers, access_key=guarded.ADMIN.access_key, secret_key=guarded.ADMIN.secret_key) as admin:
        for name, rights in {guarded.APP.access_key: guarded.RIGHTS, **RIGHTS}.items():
            await admin.access.create_user(UserBody(username=name, password=f"{name}-secret", user_type="Normal"))
            entries = [EntryBody(resource=key, actions=actions, decision="Allow") for key, actions in rights.items()]
            await admin.access.put_policies(name, entries)
