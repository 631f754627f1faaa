"""What Apache's benchmark programs of 5.5.0 print, and what their clients log."""

from __future__ import annotations

from pathlib import Path

from benchmarks.apache import complaints, parse

PRODUCER = (
    "Current Time: 2026-11-21 05:08:12,491 | Send TPS: 4982 | Max RT(ms): 888 | Average RT(ms):   6.421 | "
    "Send Failed: 2 | Response Failed: 1"
)
TRANSACTIONS = (
    "Current Time: 2026-11-21 05:08:12,491 | Send TPS: 435 | Max RT(ms): 2993 | AVG RT(ms): 43.7 | Send Failed: 0 | "
    "check: 0 | unexpectedCheck: 0 | duplicatedCheck: 0"
)
CONSUMER = (
    "Current Time: 2026-11-21 05:08:22,491 | Consume TPS: 1956 | AVG(B2C) RT(ms): 1507.837 | AVG(S2C) RT(ms): "
    "1500.657 | MAX(B2C) RT(ms): 3836 | MAX(S2C) RT(ms): 3767 | Consume Fail: 3"
)


def test_reports_are_understood() -> None:
    assert parse("plain", PRODUCER) == (4982, 6.421, 888, 3)
    assert parse("transaction", TRANSACTIONS) == (435, 43.7, 2993, 0)
    assert parse("consume", CONSUMER) == (1956, 1500.657, 3767, 3)
    assert parse("plain", "topic: BenchmarkTest threadCount: 32") is None


def test_what_a_client_complained_about_is_found(tmp_path: Path) -> None:
    assert complaints(tmp_path) == "its log has neither warnings nor errors"
    log = tmp_path / "logs" / "rocketmqlogs" / "rocketmq_client.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-11-21 05:08:12 INFO t - fine\n2026-11-21 05:08:13 WARN t - send heart beat to broker failed\n")
    assert complaints(tmp_path) == "2026-11-21 05:08:13 WARN t - send heart beat to broker failed"
