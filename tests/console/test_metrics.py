"""What the console counts of itself, read as Prometheus reads it."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gantrymq.console.metrics import Figures, metrics_of, reason_of
from gantrymq.console.sessions import ATTEMPTS, Sessions
from gantrymq.console.settings import OPEN_TO_LOOK
from gantrymq.errors import RequestRejected
from gantrymq.observability.metrics import Metric, MetricKind
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from tests.console.site import PASSWORD, Site, on_site
from tests.console.test_transactions import chosen

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
VERA = ("vera", PASSWORD)


def row(metric: Metric) -> str:
    """The line of the table in docs/metrics.md."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"


def test_the_documentation_lists_what_is_declared() -> None:
    declared = metrics_of(Figures(), Sessions(SystemClock(), SystemRng(1), 1, 1)).declared()
    section = DOCS.read_text("utf-8").split("\n## Console\n")[1].split("\n## ")[0]
    listed = re.findall(r"(?m)^\| `(?:rocketmq|gantry)_.*$", section)
    assert listed == [row(metric) for metric in declared], "\n".join(row(metric) for metric in declared)
    for metric in declared:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name


async def scraped(there: Site) -> dict[tuple[str, ...], float]:
    """Name and values of the labels to value."""
    text = await there.new_browser().get("/metrics", auth=VERA)
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "node_type"}
            assert sample.labels["node_type"] == "console"
            found[sample.name, *labels.values()] = sample.value
    return found


def test_pages_log_ins_and_actions_are_counted(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        browser = there.browser
        await there.half("ABC")
        await there.half("DEF")
        await browser.post("/login", 401, name="otto", password="wrong")
        await browser.log_in("otto")
        page = await browser.get("/transactions")
        for transaction in ("ABC", "DEF"):
            await browser.get(f"/transactions/{transaction}")
        await browser.get("/nothing", 404)
        one = chosen(page)[0]
        await browser.post("/transactions/plan", action="commit", chosen=one)
        assert "1 done" in await browser.post("/transactions/carry-out", action="commit", chosen=one, why="ticket 1")
        ada = there.new_browser()
        await ada.log_in("ada")
        await ada.post("/brokers/broker-a/change", 502, key="fileReservedTime", value="0", why="ticket 2")
        found = await scraped(there)
        assert found["gantry_console_requests_total", "/transactions/{id:path}", "200"] == 2
        assert found["gantry_console_requests_total", "other", "404"] == 1
        assert found["gantry_console_requests_total", "/login", "401"] == 1
        assert found["gantry_console_request_latency_count", "/transactions/{id:path}"] == 2
        assert found["gantry_console_actions_total", "commit", "done"] == 1
        assert found["gantry_console_actions_total", "setting", "refused"] == 1
        assert found["gantry_console_logins_total", "refused"] == 1
        assert found["gantry_console_logins_total", "done"] == 3, "two people and this scrape"
        assert found["gantry_console_sessions",] == 2
        assert found["gantry_console_questions_failed_total", "refused"] >= 1
        assert reason_of(RequestRejected(ResponseCode.NO_PERMISSION, "no")) == "denied"
        assert not {"otto", "ABC", "ada"} & {label for labels in found for label in labels}

    on_site(work, tmp_path)


def test_a_server_that_is_gone_is_counted(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        assert there.running.name_server is not None
        await there.running.name_server.close()
        await there.browser.log_in("vera")
        await there.browser.get("/transactions", 502)
        found = await scraped(there)
        assert found["gantry_console_questions_failed_total", "unreachable"] >= 1

    on_site(work, tmp_path)


def test_who_may_read_them(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        stranger = there.new_browser()
        answer = await stranger.http.get("/metrics")
        assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Basic")
        assert "gantry_console" not in answer.text
        assert (await stranger.http.post("/metrics")).status_code in (403, 405)
        await stranger.log_in("vera")
        assert "gantry_console" in await stranger.get("/metrics"), "a session is enough, too"
        prometheus = there.new_browser()
        for _ in range(ATTEMPTS):
            await prometheus.get("/metrics", 401, auth=("vera", "wrong"))
        await prometheus.get("/metrics", 429, auth=VERA)

    on_site(work, tmp_path)


def test_they_are_open_where_everybody_may_look(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        assert "gantry_console_requests_total" in await there.browser.get("/metrics")

    on_site(work, tmp_path, settings=OPEN_TO_LOOK)
