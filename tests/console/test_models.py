"""What pages are made of, without a cluster: waterfalls, dead letters, the audit file, settings, disks, lag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gantrymq.admin.overviews import Group
from gantrymq.console.audit_lines import TEXT_MAX, entries_of, fitting, read_end
from gantrymq.console.dead_letter_facts import dead_letter
from gantrymq.console.disk_use import disk_svg, disk_use
from gantrymq.console.lag_history import GROUPS_MAX, KEPT, LagHistory, furthest
from gantrymq.console.setting_texts import check_value, choices, moment, settings_of, texts
from gantrymq.console.views import size
from gantrymq.console.waterfall import LEAST, WIDTH, Bar, Kind, axis_of, bar_svg, in_order
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset


def bar(begin: int, took: int | None, **more: object) -> Bar:
    return Bar("sent", "payments", begin, took, Kind.SENT, **more)  # type: ignore[arg-type]


def test_bars_share_an_axis() -> None:
    bars = in_order([bar(1_500, 500), bar(1_000, None), bar(1_000, 900)])
    assert [one.took_ms for one in bars] == [900, None, 500], "what contains others comes first"
    axis = axis_of(bars)
    assert axis is not None and (axis.begin_ms, axis.length_ms) == (1_000, 1_000)
    assert axis.ticks == [0, 250, 500, 750, 1_000] and axis_of([]) is None
    drawn = bar_svg(bars[2], axis)
    assert f'x="{WIDTH / 2:.1f}"' in drawn and f'width="{WIDTH / 2:.1f}"' in drawn
    assert "<polygon" in bar_svg(bars[1], axis)
    only = axis_of([bar(5, 0)])
    assert only is not None and f'width="{LEAST:.1f}"' in bar_svg(bar(5, 0, failed=True), only)
    assert "bar-failed" in bar_svg(bar(5, 0, failed=True), only)
    end = axis_of([bar(0, 10), bar(10, 0)])
    assert end is not None and f'x="{WIDTH - LEAST:.1f}"' in bar_svg(bar(10, 0), end), "nothing leaves the picture"


def message(stored: int, deliveries: int, **properties: str) -> MessageView:
    return MessageView(
        "%DLQ%G", b"", properties, 0, MessageQueue("%DLQ%G", "b", 0), QueueOffset(0), "ID", "PLACE", 0, "", stored, "",
        deliveries, LogOffset(0),
    )  # fmt: skip


def test_what_is_known_of_a_dead_letter() -> None:
    letter = dead_letter(message(100, 16, DLQ_ORIGIN_TOPIC="orders"), 16, [message(50, 3), message(200, 0)])
    assert (letter.origin, letter.deliveries, letter.again_ms) == ("orders", 16, 200)
    assert "limit of 16 retries" in letter.why
    early = dead_letter(message(100, 2), 16, [message(50, 1)])
    assert early.again_ms is None and "before the limit" in early.why, "what was stored before was an ordinary retry"
    assert "limit of 3 retries" in dead_letter(message(100, 3, MAX_RECONSUME_TIMES="3"), 16, []).why
    assert "before the limit" in dead_letter(message(100, 3, MAX_RECONSUME_TIMES="many"), None, []).why
    assert "does not retry" in dead_letter(message(100, 0), 0, []).why


def line(number: int, phase: str, **facts: object) -> bytes:
    return json.dumps(
        {"when": "2026-01-31T12:00:00.000Z", "decision": f"d{number}", "phase": phase, "who": "ann", "host": "h",
         "action": "reset", "why": f"ticket {number}", "name_servers": "x", **facts}
    ).encode()  # fmt: skip


def test_the_audit_file_is_read_from_its_end(tmp_path: Path) -> None:
    lines = [line(1, "intended", group="G"), line(1, "done", group="G", outcome="2 of 2"), line(2, "intended")]
    end = entries_of([*lines, b"no json", b"[1]", b"[" * 100_000, b""], whole=True)
    assert [(one.decision, one.phase) for one in end.entries] == [("d2", "intended"), ("d1", "done")]
    assert end.entries[1].outcome == "2 of 2" and end.entries[1].about == "group G" and end.unreadable == 3
    assert [one.decision for one in fitting(end.entries, "TICKET 2")] == ["d2"] and len(fitting(end.entries, None)) == 2
    (long,) = entries_of([line(1, "done", which=["x" * 900])], whole=True).entries
    assert len(long.about) == TEXT_MAX + 1
    path = tmp_path / "audit.jsonl"
    assert read_end(path).entries == [] and read_end(path).whole
    path.write_bytes(b"\n".join(line(number, "done") for number in range(500)) + b"\n")
    some = read_end(path, 10_000)
    assert not some.whole and some.unreadable == 0 and some.entries[0].decision == "d499" and len(some.entries) < 100
    with pytest.raises(IsADirectoryError):
        read_end(tmp_path)


def test_settings_with_their_documentation() -> None:
    values = {"fileReservedTime": "99", "deleteWhen": texts()["deleteWhen"].default, "javaOnly": "1", "listenPort": "1"}
    hours, when, java, port = settings_of(values, ours=True)
    assert hours.changed and not when.changed and not java.changed and java.text is None
    assert [one.key for one in choices([hours, when, java, port])] == ["fileReservedTime", "deleteWhen", "javaOnly"]
    assert not any(one.changed for one in settings_of(values, ours=False)), "Apache's defaults are others"
    check_value(hours, "5")
    check_value(java, "anything")
    for setting, value, words in ((hours, "", "whole number"), (hours, "\u0665", "whole"), (port, "5", "restart"),
                                  (hours, "5\nx=1", "one line"), (java, "x" * 5_000, "too long")):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            check_value(setting, value)
    assert moment("bootTimestamp", "1700000000000") == 1_700_000_000_000
    for key, value in (("bootTimestamp", "0"), ("bootTimestamp", "x"), ("other", "1700000000000"),
                       ("bootTimestamp", "9" * 15), ("bootTimestamp", "9" * 400)):  # fmt: skip
        assert moment(key, value) is None, (key, value)


def test_a_disk_and_its_limits() -> None:
    runtime = {"commitLogDiskRatio": "0.87", "commitLogDirCapacity": "Total : 10 GiB, Free : 1 GiB.",
               "commitLogMinOffset": "1024", "commitLogMaxOffset": "4096"}  # fmt: skip
    settings = {"diskMaxUsedSpaceRatio": "75", "diskSpaceCleanForciblyRatio": "85", "diskSpaceWarningLevelRatio": "90",
                "fileReservedTime": "72", "deleteWhen": "04"}  # fmt: skip
    use = disk_use(runtime, settings)
    assert use is not None and use.log_bytes == 3_072 and [one.passed for one in use.limits] == [True, True, False]
    assert "disk-warn" in disk_svg(use) and disk_svg(use).count("<line") == 3
    full = disk_use({**runtime, "commitLogDiskRatio": "0.95"}, settings)
    assert full is not None and "disk-bad" in disk_svg(full)
    for ratio in ("", "x", "nan", "-1", "7"):
        assert disk_use({"commitLogDiskRatio": ratio}, settings) is None, ratio
    strange = disk_use({"commitLogDiskRatio": "0.1"}, {"diskSpaceWarningLevelRatio": "much"})
    assert strange is not None and strange.limits == () and "disk-good" in disk_svg(strange)
    assert [size(value) for value in (0, 1_023, 1_536, 5 << 30, 3 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB", "3.0 TiB",
    ]  # fmt: skip


def test_lag_over_time_has_a_bound() -> None:
    def group(name: str, lag: int) -> Group:
        return Group(
            group=name, lag=lag, behind_ms=lag * 1_000, tps=0.0, members=0, model="", conflicts=[], topics={}
        )  # fmt: skip

    many = {f"g{number}": group(f"g{number}", number) for number in range(GROUPS_MAX + 50)}
    kept = furthest(many)
    assert len(kept) == GROUPS_MAX and "g49" not in kept and kept["g50"].messages == 50
    history = LagHistory(None, None, 10.0)  # type: ignore[arg-type]
    history.kept.extend([furthest({"a": group("a", 5)}), {}, furthest({"a": group("a", 7)})])
    messages, seconds = history.of("a")
    assert len(messages) == KEPT and messages[-3:] == [5.0, None, 7.0] and seconds[-1] == 7.0 and messages[0] is None
    assert history.span_s == KEPT * 10
