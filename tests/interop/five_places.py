"""The doors at which the lines are played: that of our broker, and, as control, Apache's proxy 5.5.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.interop.apache import OPS_AT_ONCE, ApacheCluster, JavaProcess
from tests.interop.five_driver import Door
from tests.interop.jars import library
from tests.interop.ours import GantryCluster
from tests.interop.process import Process

CHECKS = {"transactionTimeOut": "3000", "transactionCheckInterval": "3000"}
BOTH = {**CHECKS, "recallMessageEnable": "true", "enablePropertyFilter": "true", "timerWheelEnable": "true"}
OF_APACHE = {
    **OPS_AT_ONCE,
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "mappedFileSizeTimerLog": "52000",
    "popFromRetryProbability": "100",
}
APACHE = "Apache's proxy 5.5.0"


@contextmanager
def our_door(directory: Path, **settings: object) -> Iterator[Door]:
    """Our broker with its door."""
    cluster, port, listen = GantryCluster(directory), free_port(), free_port()
    broker: list[Process] = []

    def start() -> None:
        broker.append(cluster.start_broker(grpcPort=port, listenPort=listen, **BOTH, **settings))  # type: ignore[arg-type]

    def restart() -> None:
        broker[-1].kill()
        start()

    try:
        cluster.start_name_server()
        start()
        yield Door(f"localhost:{port}", cluster.name_servers, wait_s=1, invisible_s=3, restart=restart)
    finally:
        cluster.close()


@contextmanager
def apaches_door(directory: Path) -> Iterator[Door]:
    """Apache's proxy before Apache's broker. Raises NotHere."""
    jars, cluster = library("proxy-5.5.0"), ApacheCluster("5.5.0", directory)
    proxy: Process | None = None
    try:
        cluster.start_name_server()
        cluster.start_broker(**BOTH, **OF_APACHE)  # type: ignore[arg-type]
        port, conf = free_port(), directory / "proxy.json"
        settings = {
            "rocketMQClusterName": "DefaultCluster", "namesrvAddr": cluster.name_servers, "grpcServerPort": port,
            "remotingListenPort": free_port(), "proxyMode": "CLUSTER",
        }  # fmt: skip
        conf.write_text(json.dumps(settings))
        (directory / "conf" / "logback_proxy.xml").write_text('<configuration><root level="OFF"/></configuration>\n')
        proxy = JavaProcess(
            "proxy", [jars], "org.apache.rocketmq.proxy.ProxyStartup",
            ["-pc", str(conf), "-n", cluster.name_servers, "-pm", "cluster"], directory, heap_mb=512,
        )  # fmt: skip
        proxy.await_line("startup successfully")
        yield Door(f"127.0.0.1:{port}", cluster.name_servers, wait_s=5, invisible_s=10, patient=True)
    finally:
        if proxy is not None:
            proxy.kill()
        cluster.close()
