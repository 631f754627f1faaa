"""Everything works on a machine that has no IPv4: servers, clients, ids of messages, check-backs, tools, pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import namespaces

BROKER = "[2001:db8::5]:10911"


@pytest.mark.slow
def test_a_cluster_without_ipv4(tmp_path: Path) -> None:
    found = json.loads(namespaces.python(namespaces.IPV6_ONLY, "tests.cli.ipv6_only", str(tmp_path)).splitlines()[-1])
    assert found["own"] == "2001:db8::5"
    assert BROKER in found["ready"]
    assert len(found["id"]) == 56
    assert found["brokers"][0]["address"] == BROKER
    assert found["shown"][0]["body"] == "plain"
    assert found["asked"] >= 1
    assert (found["row"], found["got"]) == (1, ["checked", "plain", "row"]) and found["read"] == found["got"]
    assert found["metrics"] == 200
    assert found["console"]
    assert found["queues"] == 4
