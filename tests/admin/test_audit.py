"""The record of decisions: appended, on the disk, or nothing is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gantrymq.admin.audit import AuditFailed, AuditFile, Phase, default_path, who
from tests.support.sim_clock import SimClock


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_both_lines_of_a_decision(tmp_path: Path) -> None:
    path = tmp_path / "state" / "audit.jsonl"
    decision = AuditFile(path, SimClock()).decision(action="commit", why="ticket \u00e4\n2", transaction_id="ID")
    decision.note(Phase.INTENDED)
    decision.note(Phase.DONE, "committed")
    first, second = lines(path)
    assert first["decision"] == second["decision"]
    assert [first["phase"], second["phase"]] == ["intended", "done"]
    assert "outcome" not in first and second["outcome"] == "committed"
    for line in (first, second):
        assert (line["who"], line["action"], line["why"], line["transaction_id"]) == (
            who(), "commit", "ticket \u00e4\n2", "ID",
        )  # fmt: skip
        assert str(line["when"]).endswith("+00:00") and line["host"]
    assert path.stat().st_mode & 0o077 == 0, "it names persons"


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"older": true}\n')
    AuditFile(path, SimClock()).decision().note(Phase.DRY_RUN)
    assert lines(path)[0] == {"older": True} and len(lines(path)) == 2


def test_a_record_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditFailed, match="--audit"):
        AuditFile(tmp_path / "file" / "audit.jsonl", SimClock()).decision().note(Phase.INTENDED)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("GANTRY_AUDIT", raising=False)
    assert default_path() == tmp_path / "gantry" / "audit.jsonl"
    monkeypatch.setenv("GANTRY_AUDIT", "elsewhere.jsonl")
    assert default_path() == Path("elsewhere.jsonl")


def test_who_it_was_behind_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    name = who()
    monkeypatch.setenv("SUDO_USER", "ada")
    assert who() == f"ada as {name}"
