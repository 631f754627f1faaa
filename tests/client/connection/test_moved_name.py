"""The name of a name server gets another address while brokers and clients run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.namespaces import LOOPBACK_ONLY, python


@pytest.mark.slow
def test_brokers_and_clients_follow_a_name_that_moves(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.touch()
    setup = (*LOOPBACK_ONLY, f"mount --bind {hosts} /etc/hosts")
    assert python(setup, "tests.client.connection.moved_name", str(hosts), str(tmp_path)) == "moved\n"
