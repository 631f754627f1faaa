"""What a name server measures, by the command line and a real scrape."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.nameserver.test_nameserver import BROKER, ask, body_of, register, run, until
from tests.support.tied import tied

from gantrymq.demo.ports import free_port
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.observability.metrics import Histogram, Metric, MetricKind
from gantrymq.observability.rpc_latency import BOUNDS_MS, RPC_LATENCY
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers import nameserver as headers
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def row(metric: Metric) -> str:
    """The line of the table in docs/metrics.md."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"


def test_the_documentation_lists_what_is_declared() -> None:
    declared = NameServer(NameServerConfig(), TcpNetwork(), SystemClock(), OsDisk()).metrics.declared()
    section = DOCS.read_text("utf-8").split("\n## Name server\n")[1].split("\n## ")[0]
    listed = re.findall(r"(?m)^\| `(?:rocketmq|gantry)_.*$", section)
    assert listed == [row(metric) for metric in declared], "\n".join(row(metric) for metric in declared)
    for metric in declared:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name


def test_the_latency_of_requests_is_declared_as_by_apaches_servers() -> None:
    """Source: RemotingMetricsConstant and RemotingMetricsManager of 5.x."""
    assert (RPC_LATENCY.name, RPC_LATENCY.unit, RPC_LATENCY.kind) == (
        "rocketmq_rpc_latency_milliseconds", "milliseconds", MetricKind.HISTOGRAM,
    )  # fmt: skip
    assert set(RPC_LATENCY.labels) == {
        "protocol_type", "request_code", "response_code", "is_long_polling", "result",
    }  # fmt: skip
    assert BOUNDS_MS == (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)


def test_brokers_and_requests_are_measured() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        read = server.metrics.read
        body = body_of("T", "U").encode()
        await register(client, server, body)
        await register(client, server, body)
        await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
        await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="nope"))
        assert read("gantry_nameserver_brokers") == {("C",): 1} and read("gantry_nameserver_topics") == {(): 2}
        assert read("gantry_nameserver_registrations_total") == {("true",): 1, ("false",): 1}
        assert read("gantry_connections") == {(): 1}
        answered = {}
        for labels, histogram in read("rocketmq_rpc_latency_milliseconds").items():
            assert isinstance(histogram, Histogram) and (labels[0], *labels[3:]) == (
                "remoting", "false", "success",
            )  # fmt: skip
            answered[labels[1:3]] = sum(histogram.counts)
        assert answered == {
            ("register_broker", "success"): 2, ("get_routeinfo_by_topic", "success"): 1,
            ("get_routeinfo_by_topic", "topic_not_exist"): 1,
        }  # fmt: skip
        goodbye = headers.UnregisterBroker(broker_name="broker-a", broker_addr=BROKER, cluster_name="C", broker_id=0)
        await ask(client, server, RequestCode.UNREGISTER_BROKER, goodbye)
        await register(client, server, body)
        await client.close()

        async def gone() -> bool:
            return read("gantry_nameserver_brokers") == {}

        await until(gone)
        removed = read("gantry_nameserver_brokers_removed_total")
        assert removed == {("unregistered",): 1, ("lost",): 1, ("silent",): 0}

    run(scenario)


def test_a_scrape_of_a_real_name_server(tmp_path: Path) -> None:
    port, http_port = free_port(), free_port()
    command = [sys.executable, "-m", "gantrymq.cli.main", "nameserver", "-p", str(port), "--http-port", str(http_port)]
    with subprocess.Popen(tied(command), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            url = f"http://127.0.0.1:{http_port}/metrics"
            assert f"name server 0.0.0.0:{port}, metrics at {url}" in ready
            with urllib.request.urlopen(url) as answer:
                families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
            (topics,) = families["gantry_nameserver_topics"].samples
            assert topics.labels == {"node_type": "nameserver", "node_id": f"0.0.0.0:{port}"} and topics.value == 0
        finally:
            process.terminate()


def test_a_server_of_both_has_them_on_a_port_of_their_own(tmp_path: Path) -> None:
    http_port = free_port()
    options = ["--store", str(tmp_path), "--listen-port", "0", "--name-server-port", "0"]
    command = [sys.executable, "-m", "gantrymq.cli.main", "server", *options, "--name-server-http-port", str(http_port)]
    with subprocess.Popen(tied(command), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert f"metrics at http://127.0.0.1:{http_port}/metrics, broker " in process.stdout.readline()
            for probe in ("alive", "health"):
                with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/{probe}") as answer:
                    assert json.loads(answer.read())["status"] == "ok"
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics") as answer:
                text = answer.read().decode()
            assert re.search(r'gantry_nameserver_brokers\{cluster="DefaultCluster",.*\} 1\.0', text), text
        finally:
            process.terminate()
