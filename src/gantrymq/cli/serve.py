"""``gantry server``, ``nameserver``, ``broker`` and ``proxy``: their options, for people and mistakes.

``cli.plain_start`` knows the same options, and starts the same programs without this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gantrymq.broker.config_sections import DEFAULT_LISTEN_PORT
from gantrymq.cli.serving import broker as serving_broker
from gantrymq.cli.serving import nameserver as serving_nameserver
from gantrymq.cli.serving import proxy as serving_proxy
from gantrymq.cli.serving import server as serving_server
from gantrymq.nameserver.config import DEFAULT_PORT
from gantrymq.runtime.addresses import ANY, LOOPBACK
from gantrymq.runtime.tls.settings import ENVIRONMENT

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="A RocketMQ broker.conf. Options of the command line have priority."),
]
Store = Annotated[Path | None, typer.Option(help="Directory of the store (storePathRootDir).")]
Flush = Annotated[
    str | None,
    typer.Option(help="sync: an acknowledged message is on the disk (default). async: faster; a power cut loses the "
                      "last half second."),
]  # fmt: skip
BrokerPort = Annotated[
    int | None, typer.Option(help=f"Port of the broker; 0: any free one. Default: {DEFAULT_LISTEN_PORT}.")
]
HttpPort = Annotated[
    int | None,
    typer.Option(help="Port of the HTTP endpoint: transactions and health as JSON, read only, for this machine "
                      "(httpPort, httpBindAddress). Default: 0, none."),
]  # fmt: skip
GrpcPort = Annotated[
    int | None,
    typer.Option(help="Port for clients of RocketMQ 5, which speak gRPC (grpcPort). RocketMQ's is 8081. Default: 0, "
                      "none. Needs gantrymq[grpc]."),
]  # fmt: skip
BrokerName = Annotated[str | None, typer.Option(help="Name of the broker (brokerName).")]
TlsConfig = Annotated[
    Path | None,
    typer.Option(envvar=ENVIRONMENT, help="A RocketMQ tls.properties: certificates, and which connections must "
                                                  "use TLS; see docs/security.md. Default: no TLS."),
]  # fmt: skip
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]


def server(
    config: ConfigFile = None,
    store: Store = None,
    listen_port: BrokerPort = None,
    name_server_port: Annotated[
        int | None,
        typer.Option("--name-server-port", "--namesrv-port",
                     help=f"Port of the name server; 0: any free one. Default: {DEFAULT_PORT}."),
    ] = None,
    name_server_http_port: Annotated[
        int, typer.Option(help="Port of the name server's /metrics, for this machine; 0: none.")
    ] = 0,
    host: Annotated[
        str | None, typer.Option(help="Address that clients connect to. Default: 127.0.0.1, this machine only.")
    ] = None,
    flush: Flush = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    broker_name: BrokerName = None,
    tls_config: TlsConfig = None,
    brokers: Annotated[
        int | None,
        typer.Option(help="So many brokers, each a process with its own part (broker-0, broker-1 ...) of the store "
                          "directory, on --listen-port, +10, +20 ... One that dies is started again."),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(help="So many brokers of one name, each a process with its own part (replica-1, replica-2 ...) of "
                          "the store directory, that elect their primary: for trying. Needs etcd; see "
                          "docs/election.md."),
    ] = None,
    log_level: LogLevel = "warning",
) -> None:  # fmt: skip
    """Run a name server and a broker in one process. Stop it with Ctrl-C.

    Without options: name server on port 9876, broker on port 10911, messages in ./gantry-store. One broker uses one
    core; --brokers N runs N of them behind this name server. --replicas 3 runs three copies of one broker.
    """
    serving_server.server(
        config=config,
        store=store,
        listen_port=listen_port,
        name_server_port=name_server_port,
        name_server_http_port=name_server_http_port,
        host=host,
        flush=flush,
        http_port=http_port,
        grpc_port=grpc_port,
        broker_name=broker_name,
        brokers=brokers,
        replicas=replicas,
        tls_config=tls_config,
        log_level=log_level,
    )


def nameserver(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A namesrv.conf; other options take precedence over it.")
    ] = None,
    listen_port: Annotated[
        int | None, typer.Option("--listen-port", "-p", help=f"0: any free port; {DEFAULT_PORT} by default.")
    ] = None,
    host: Annotated[str | None, typer.Option(help=f"Address to listen on; {ANY} by default.")] = None,
    kv_config: Annotated[
        Path | None, typer.Option(help="File for key-values; without it they live as long as the process.")
    ] = None,
    tls_config: TlsConfig = None,
    http_port: Annotated[int, typer.Option(help="Port of /metrics for Prometheus; 0: none.")] = 0,
    http_bind: Annotated[str, typer.Option(help="Address of /metrics.")] = LOOPBACK,
    log_level: LogLevel = "info",
) -> None:
    """Run a name server. Stop it with Ctrl-C."""
    serving_nameserver.nameserver(
        config=config,
        listen_port=listen_port,
        host=host,
        kv_config=kv_config,
        tls_config=tls_config,
        http_port=http_port,
        http_bind=http_bind,
        log_level=log_level,
    )


def broker(
    config: ConfigFile = None,
    store: Store = None,
    listen_port: BrokerPort = None,
    namesrv_addr: Annotated[
        str | None,
        typer.Option("--namesrv-addr", "-n", help="Name servers, host:port;host:port. Default: NAMESRV_ADDR."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address that clients connect to (brokerIP1). Default: this machine's.")
    ] = None,
    bind: Annotated[
        str | None, typer.Option(help="Address to listen on (bindAddress). Default: all of this machine.")
    ] = None,
    flush: Flush = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    broker_name: BrokerName = None,
    tls_config: TlsConfig = None,
    log_level: LogLevel = "info",
) -> None:
    """Run a broker. Stop it with Ctrl-C."""
    serving_broker.broker(
        config=config,
        store=store,
        listen_port=listen_port,
        namesrv_addr=namesrv_addr,
        host=host,
        bind=bind,
        flush=flush,
        http_port=http_port,
        grpc_port=grpc_port,
        broker_name=broker_name,
        tls_config=tls_config,
        log_level=log_level,
    )


def proxy(
    name_servers: Annotated[
        str | None,
        typer.Option("--name-servers", "-n", help="Name servers, host:port;host:port. Default: NAMESRV_ADDR."),
    ] = None,
    grpc_port: Annotated[int, typer.Option(help="Port for clients of RocketMQ 5; 0: any free one.")] = (
        serving_proxy.DEFAULT_GRPC_PORT
    ),
    bind: Annotated[str, typer.Option(help="Address to listen on. Default: all of this machine.")] = ANY,
    host: Annotated[
        str, typer.Option(help="Address that a client is told which does not say how it reaches the proxy.")
    ] = LOOPBACK,
    tls_config: TlsConfig = None,
    http_port: Annotated[int, typer.Option(help="Port of /metrics, /alive and /health; 0: none.")] = 0,
    http_bind: Annotated[str, typer.Option(help="Address of /metrics.")] = LOOPBACK,
    log_level: LogLevel = "info",
) -> None:
    """Run a proxy: clients of RocketMQ 5 (gRPC) reach all brokers of a cluster through it. Stop it with Ctrl-C.

    The brokers may be those of GantryMQ, or Apache's from 5.0 on. A proxy keeps nothing on disk. Several proxies may
    stand before one cluster. Before brokers with users, set GANTRY_ACCESS_KEY and GANTRY_SECRET_KEY to a super user:
    the proxy judges its clients by the users of the brokers. Needs the package protobuf (the extra "grpc").
    """
    serving_proxy.proxy(
        name_servers=name_servers,
        grpc_port=grpc_port,
        bind=bind,
        host=host,
        tls_config=tls_config,
        http_port=http_port,
        http_bind=http_bind,
        log_level=log_level,
    )
