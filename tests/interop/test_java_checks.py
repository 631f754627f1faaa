"""Holes 33 and 34 are in the client: that official ones have them is shown here, on our broker.

What ours does instead is in ``tests/holes``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.apache import JavaClient
from tests.interop.conftest import CONTROLS
from tests.interop.ours import GantryCluster
from tests.interop.process import Process

TIMEOUT_MS = 500
CHECK_MAX = 2
pytestmark = pytest.mark.skipif(not os.environ.get(CONTROLS), reason=f"a control; {CONTROLS}=1 runs it")


@pytest.fixture(scope="module")
def played(java_client: JavaClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """``java/Checks.java``, on a broker that parks after two UNKNOWNs."""
    cluster = GantryCluster(tmp_path_factory.mktemp("gantry"))
    try:
        cluster.start_name_server()
        cluster.start_broker(
            transactionTimeOut=TIMEOUT_MS, transactionCheckInterval=TIMEOUT_MS, transactionCheckMax=CHECK_MAX
        )
        process = java_client.play("Checks", cluster.name_servers, "checks")
        process.await_step("done")
        yield process
    finally:
        cluster.close()


def test_hole_33_a_java_client_gives_no_answer_for_null(played: Process) -> None:
    """An answer UNKNOWN would have been counted, and the half parked instead of asked about for the third time."""
    assert len([entry for entry in played.steps("check") if entry["key"] == "silent"]) > CHECK_MAX


def test_hole_34_a_java_client_checks_one_after_the_other(played: Process) -> None:
    ends = played.steps("slow check ends")[0]
    checked = next(entry for entry in played.steps("check") if entry["key"] == "behind")
    assert checked["at"] >= ends["at"]
