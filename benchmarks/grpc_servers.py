"""What `bench grpc` compares: Apache's proxy and broker, and ours, in one process and as a proxy before a broker."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop import jars as interop

from benchmarks import processes
from benchmarks.apache import BROKER_HEAP, VERSION, NotPossible, broker_conf, child, java_command
from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.pool import SERVICE

PROXY_HEAP = ["-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m"]
"""Apache's own start script gives its proxy 4 GiB. With less, the comparison of memory is in Apache's favour."""
START_LIMIT_S = 120.0
PROXY_MAIN = "org.apache.rocketmq.proxy.ProxyStartup"


@dataclass(frozen=True, slots=True)
class Served:
    """Servers that are up."""

    endpoint: str
    name_server: str
    pids: tuple[int, ...]
    """Those of the broker and of the proxy; the name server does not count."""
    start_s: float
    """From the start of the first of these to the first answer of gRPC."""

    def rss_mb(self) -> float:
        """Resident memory of all, in MiB."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu_s(self) -> float:
        """Seconds of processor time of all until now."""
        return sum(map(processes.cpu_s, self.pids))


def libraries() -> tuple[Path, Path]:
    """The jars of Apache's proxy, and those of the Java client. Raises NotPossible."""
    try:
        interop.check_jdk()
        return interop.library(f"proxy-{VERSION}"), interop.library("grpc-5.2.0")
    except interop.NotHere as error:
        raise NotPossible(str(error)) from error


@contextlib.contextmanager
def apache_servers(lib: Path, directory: Path, *, cluster: bool) -> Iterator[Served]:
    """Apache's name server, and its proxy: with the broker in its process (``local``), or before a broker."""
    home = directory / "home"
    home.mkdir(parents=True)
    log = directory / "output.log"
    own = [f"-Duser.home={home}"]
    with _apache_names(lib, directory, home, log) as names:
        port, grpc_port = free_port(), free_port()
        conf = broker_conf(directory, "async", names, port)
        proxy_conf = directory / "proxy.json"
        settings = {
            "rocketMQClusterName": "DefaultCluster", "namesrvAddr": names, "grpcServerPort": grpc_port,
            "remotingListenPort": free_port(), "proxyMode": "CLUSTER" if cluster else "LOCAL",
        }  # fmt: skip
        proxy_conf.write_text(json.dumps(settings))
        started = time.monotonic()
        proxy = [PROXY_MAIN, "-pc", str(proxy_conf), "-n", names]
        with contextlib.ExitStack() as stack:
            pids = []
            if cluster:
                main = "org.apache.rocketmq.broker.BrokerStartup"
                command = java_command(lib, [*BROKER_HEAP, *own], main, "-c", str(conf))
                broker = stack.enter_context(child(command, log, home))
                processes.await_route(int(names.rpartition(":")[2]), broker, started, log)
                pids.append(broker.pid)
                command = java_command(lib, [*PROXY_HEAP, *own], *proxy, "-pm", "cluster")
            else:
                command = java_command(lib, [*BROKER_HEAP, *own], *proxy, "-pm", "local", "-bc", str(conf))
            process = stack.enter_context(child(command, log, home))
            pids.append(process.pid)
            endpoint = f"127.0.0.1:{grpc_port}"
            await_answer(endpoint, started, log)
            processes.await_route(int(names.rpartition(":")[2]), process, started, log)
            yield Served(endpoint, names, tuple(pids), time.monotonic() - started)


@contextlib.contextmanager
def _apache_names(lib: Path, directory: Path, home: Path, log: Path) -> Iterator[str]:
    port = free_port()
    conf = directory / "namesrv.conf"
    conf.write_text(f"listenPort={port}\n")
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    command = java_command(lib, ["-Xmx256m", f"-Duser.home={home}"], main, "-c", str(conf))
    with child(command, log, home) as names:
        processes.await_route(port, names, time.monotonic(), log, expect=None)
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def our_servers(directory: Path, *, cluster: bool) -> Iterator[Served]:
    """Our name server and broker; clients come through its door, or through ``gantry proxy``."""
    directory.mkdir(parents=True)
    log = directory / "output.log"
    gantry = [sys.executable, "-m", "gantrymq.cli.main"]
    port = free_port()
    names = f"127.0.0.1:{port}"
    options = ["--listen-port", str(port), "--log-level", "warning"]
    with child([*gantry, "nameserver", *options], log) as name_server:
        processes.await_route(port, name_server, time.monotonic(), log, expect=None)
        conf = broker_conf(directory, "async", names, free_port())
        grpc_port = free_port()
        words = ["-c", str(conf), "--log-level", "warning", *(() if cluster else ("--grpc-port", str(grpc_port)))]
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            broker = stack.enter_context(child([*gantry, "broker", *words], log))
            processes.await_route(port, broker, started, log)
            pids = [broker.pid]
            if cluster:
                words = ["-n", names, "--grpc-port", str(grpc_port), "--bind", "127.0.0.1", "--log-level", "warning"]
                pids.append(stack.enter_context(child([*gantry, "proxy", *words], log)).pid)
            endpoint = f"127.0.0.1:{grpc_port}"
            await_answer(endpoint, started, log)
            yield Served(endpoint, names, tuple(pids), time.monotonic() - started)


def await_answer(endpoint: str, started: float, log: Path) -> None:
    """Until a call is answered, with whatever status."""
    import grpc

    request = service.QueryRouteRequest()
    request.topic.name = "anything"
    request.endpoints.scheme = 1  # type: ignore[assignment] # IPv4
    request.endpoints.addresses.add(host="127.0.0.1", port=int(endpoint.rpartition(":")[2]))
    while True:
        # A channel of its own each time: one that failed waits before it connects again.
        with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(endpoint) as channel:
            method = channel.unary_unary(
                f"/{SERVICE}/QueryRoute", service.QueryRouteRequest.SerializeToString,
                service.QueryRouteResponse.FromString,
            )  # fmt: skip
            method(request, timeout=2, metadata=(("x-mq-client-id", "start"), ("x-mq-language", "PYTHON")))
            return
        if time.monotonic() - started > START_LIMIT_S:
            raise NotPossible(f"{endpoint} does not answer; the log ends with:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)
