"""Two brokers with one name and id: at Apache's name servers, which replace silently, and an Apache broker at ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.protocol.bodies.route import ClusterInfo
from gantrymq.protocol.codes import RequestCode
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.places import ask
from tests.interop.process import Process, poll

VERSIONS = ("4.9.7", "5.5.0")
OFTEN = {"registerNameServerPeriod": "10000"}
NAME = "twin"


def known(name_server: str) -> str | None:
    """Where a name server says the master of this name is."""
    found = ClusterInfo.decode(ask(name_server, RequestCode.GET_BROKER_CLUSTER_INFO).body).broker_addr_table.get(NAME)
    return found.broker_addrs.get(0) if found is not None else None


def said(process: Process) -> str:
    return process.err.read_text(errors="replace")


@pytest.mark.parametrize("version", VERSIONS)
def test_at_a_name_server_of_apaches_both_say_that_there_are_two(jdk: None, tmp_path: Path, version: str) -> None:
    apache, ours = ApacheCluster(version, tmp_path / "apache"), GantryCluster(tmp_path / "ours")
    try:
        apache.start_name_server()
        names = apache.name_servers
        first = ours.start_broker(tmp_path / "1", name=NAME, name_servers=names, **OFTEN)
        first_at = ours.broker_address
        second = ours.start_broker(tmp_path / "2", name=NAME, name_servers=names, **OFTEN)
        second_at = ours.broker_address
        assert known(names) == second_at, "replaced without a word"
        assert first_at in said(second) and "another brokerName" in said(second)
        poll(lambda: second_at in said(first), "the next round of the first one")
        assert "another brokerName" in said(first) and known(names) == first_at
        second.stop()
        assert known(names) == first_at, "the goodbye of the other one"
    finally:
        ours.close()
        apache.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_apache_broker_is_refused_by_our_name_server_and_taken_when_the_first_one_is_gone(
    jdk: None, tmp_path: Path, version: str
) -> None:
    apache, ours = ApacheCluster(version, tmp_path / "apache"), GantryCluster(tmp_path / "ours")
    try:
        server = ours.start_name_server()
        names = ours.name_servers
        first = ours.start_broker(tmp_path / "1", name=NAME, name_servers=names)
        first_at = ours.broker_address
        apache.start_broker(name=NAME, name_servers=names, **OFTEN)
        poll(lambda: apache.broker_address in said(server), "the refusal")
        assert first_at in said(server) and known(names) == first_at
        first.stop()
        poll(lambda: known(names) == apache.broker_address, "the next round of Apache's broker")
    finally:
        ours.close()
        apache.close()
