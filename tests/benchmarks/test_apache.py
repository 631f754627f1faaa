"""What Apache's benchmark programs of 5.5.0 print, and which rows a selection names."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.apache import NotPossible, complaints, parse
from benchmarks.side_by_side import all_rows, chosen_rows

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


def test_words_choose_rows() -> None:
    assert len(chosen_rows(["java plain async 128 32t"])) == 1
    assert {row.flush for row in chosen_rows(["sync plain"])} == {"sync"}
    assert chosen_rows([]) == all_rows()
    assert 0 < len(chosen_rows(["core"])) < len(all_rows())
    with pytest.raises(NotPossible, match="'plane' names nothing"):
        chosen_rows(["plane"])


def test_what_a_client_complained_about_is_found(tmp_path: Path) -> None:
    assert complaints(tmp_path) == "its log has neither warnings nor errors"
    log = tmp_path / "logs" / "rocketmqlogs" / "rocketmq_client.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-11-21 05:08:12 INFO t - fine\n2026-11-21 05:08:13 WARN t - send heart beat to broker failed\n")
    assert complaints(tmp_path) == "2026-11-21 05:08:13 WARN t - send heart beat to broker failed"
