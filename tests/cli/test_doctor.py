"""``gantry doctor`` against real servers: what it prints, its exit statuses, and its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.cli.doctor import status_of
from gantrymq.doctor import Finding, Kind, Severity
from tests.cli.test_access import USERS
from tests.cli.test_access import server as server_with_users
from tests.cli.test_serve import address, program, server
from tests.cli.tool import Tool, leave_open, undecided_producer
from tests.support.silent import accepts_and_never_answers

QUIET = "autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false\n"


def finding(severity: Severity, *, unseen: bool = False) -> Finding:
    return Finding("x", severity, Kind.BROKER, "b", "It is wrong.", "Mend it.", unseen)


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([], 0),
        ([finding(Severity.NOTE)], 0),
        ([finding(Severity.WARNING), finding(Severity.NOTE)], 1),
        ([finding(Severity.WARNING, unseen=True)], 2),
        ([finding(Severity.WARNING, unseen=True), finding(Severity.ERROR)], 1),
    ],
)
def test_the_exit_status(findings: list[Finding], status: int) -> None:
    assert status_of(findings) == status


@pytest.mark.slow
def test_a_server_before_and_after_it_stops(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(QUIET)
    with program(*server(tmp_path / "store", "--config", str(config))) as running:
        names = address(running.ready(), "name server")
        tool = Tool(names, tmp_path / "audit.jsonl")
        text = tool.text("doctor")
        assert "Nothing is wrong." in text and f"name server {names}: answers" in text
        assert f"store {tmp_path / 'store'}" in text, "it is on this machine"
        value = tool.json("doctor")
        assert value["status"] == 0 and value["findings"] == []
        assert value["facts"]["cluster"]["brokers"][0]["settings"]["brokerName"] == "broker-a"
    status, text, err = tool.run("doctor", "--store", str(tmp_path / "store"), "--store", str(tmp_path / "none"))
    assert status == 1 and not err
    assert "does not answer" in text and f"There is no store at {tmp_path / 'none'}" in text and "2 errors" in text


@pytest.mark.slow
def test_transactions_that_nobody_can_decide(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("transactionTimeOut=1\n")
    with program(*server(tmp_path / "store", "--config", str(config))) as running:
        tool = Tool(address(running.ready(), "name server"), tmp_path / "audit.jsonl")
        tool.text("topic", "create", "orders")
        with undecided_producer(tool.name_servers, "pay", "orders") as producer:
            leave_open(producer, "orders", 2)
        status, text, _ = tool.run("doctor")
        assert status == 1
        assert "Producer group pay has 2 open transactions" in text and "gantry checker --group pay" in text
        assert "group pay: 2 open, 0 can decide" in text


@pytest.mark.slow
def test_a_user_who_may_not_ask_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server_with_users(tmp_path, USERS) as (_, ready):
        names = address(ready, "name server")
        for name in ("GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY"):
            monkeypatch.delenv(name, raising=False)
        status, text, _ = Tool(names, tmp_path / "audit.jsonl").run("doctor")
        assert status == 2, text
        assert "GANTRY_ACCESS_KEY" in text


@pytest.mark.slow
def test_a_silent_name_server_and_words_that_are_no_address(tmp_path: Path) -> None:
    with accepts_and_never_answers() as silent:
        status, text, _ = Tool(silent, tmp_path / "audit.jsonl").run("doctor")
    assert status == 1 and f"Name server {silent} does not answer" in text
    assert "is not an address" in Tool("names", tmp_path / "audit.jsonl").fails("doctor", status=2)
