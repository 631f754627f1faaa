"""A scrape over a real socket, read by prometheus-client's own parser."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gantrymq.demo.ports import free_port
from gantrymq.observability.exposition import Exposition
from gantrymq.observability.metrics import Histogram, Metric, MetricKind, Metrics, single
from tests.support.brokers import Cluster, on_broker
from tests.support.doors import http

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{}\x02"
COMMON = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}


async def scraped(address: str) -> tuple[dict[str, str], str]:
    """Headers and body."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        assert head[0].split()[1] == "200"
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        return headers, (await reader.readexactly(int(headers["content-length"]))).decode()
    finally:
        writer.close()


def test_a_scrape_has_every_declared_metric(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        for number in range(3):
            await running.sent("Orders", properties=HALF.format(number))
        await running.sent("Plain")
        headers, text = await scraped(http(running.broker).address)
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = {family.name: family for family in text_string_to_metric_families(text)}
        for metric in running.broker.metrics.declared():
            family = families[metric.name.removesuffix("_total")]
            assert family.type == metric.kind and family.documentation.startswith(metric.help)
            for sample in family.samples:
                assert sample.labels.keys() - {"le"} == {*COMMON, *metric.labels}
        (open_halves,) = families["rocketmq_half_messages"].samples
        assert (open_halves.labels, open_halves.value) == ({**COMMON, "topic": "Orders"}, 3)
        put = {sample.labels["topic"]: sample for sample in families["rocketmq_messages_in"].samples}
        assert put["Plain"].name == "rocketmq_messages_in_total" and put["Plain"].value == 1
        assert put["Plain"].labels["is_system"] == "false"
        assert put["RMQ_SYS_TRANS_HALF_TOPIC"].labels["is_system"] == "true"

    on_broker(work, tmp_path, http_port=free_port())


def test_kinds_and_labels_as_text() -> None:
    metrics, times = Metrics(), Histogram((5_000, 60_000))
    for value in (100, 5_000, 70_000):
        times.observe(value)
    metrics.declare(
        Metric("a_latency", MetricKind.HISTOGRAM, "milliseconds", ("topic",), "How long."), lambda: [(("T",), times)]
    )
    metrics.declare(Metric("b_total", MetricKind.COUNTER, "", ("topic",), "How many."), lambda: [(('a"\\\nb',), 7)])
    metrics.declare(Metric("c", MetricKind.GAUGE, "bytes", (), "How large."), single(lambda: 1.5))
    assert Exposition(metrics, {"node_id": "n"}).text().decode().splitlines() == [
        "# HELP a_latency How long. Unit: milliseconds.",
        "# TYPE a_latency histogram",
        'a_latency_bucket{le="5000.0",node_id="n",topic="T"} 2.0',
        'a_latency_bucket{le="60000.0",node_id="n",topic="T"} 2.0',
        'a_latency_bucket{le="+Inf",node_id="n",topic="T"} 3.0',
        'a_latency_count{node_id="n",topic="T"} 3.0',
        'a_latency_sum{node_id="n",topic="T"} 75100.0',
        "# HELP b_total How many.",
        "# TYPE b_total counter",
        'b_total{node_id="n",topic="a\\"\\\\\\nb"} 7.0',
        "# HELP c How large. Unit: bytes.",
        "# TYPE c gauge",
        'c{node_id="n"} 1.5',
    ]


def test_the_library_is_loaded_with_the_first_scrape_only() -> None:
    code = (
        "import sys, gantrymq.broker.broker, gantrymq.broker.http.door\n"
        "assert 'prometheus_client' not in sys.modules\n"
        "from gantrymq.observability.exposition import Exposition\n"
        "from gantrymq.observability.metrics import Metrics\n"
        "Exposition(Metrics(), {}).text()\n"
        "assert 'prometheus_client' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_old_name_is_shown_beside_the_new_one() -> None:
    metrics = Metrics()
    size = Metric("size_bytes", MetricKind.GAUGE, "bytes", (), "Size of it.", before="size")
    metrics.declare(size, single(lambda: 7))
    families = {
        family.name: family for family in text_string_to_metric_families(Exposition(metrics, {}).text().decode())
    }
    assert [sample.value for name in ("size_bytes", "size") for sample in families[name].samples] == [7, 7]
    assert families["size"].documentation == "Old name of size_bytes. Unit: bytes."
