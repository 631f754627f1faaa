"""The smallest round of an official client: send some, consume them."""

from __future__ import annotations

import pytest

from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.ours import GantryCluster

COUNT = 20


def _round(client: JavaClient, cluster: GantryCluster | ApacheCluster) -> None:
    name = f"PlainRound{client.version.replace('.', '')}"
    driver = client.play("Plain", cluster.name_servers, name, f"G{name}", COUNT)
    driver.done()
    assert {step["status"] for step in driver.steps("sent")} == {"SEND_OK"}
    assert sorted(step["body"] for step in driver.steps("got")) == sorted(f"body {i}" for i in range(COUNT))


@pytest.mark.feature("send: sync, async, one-way", "push: concurrent")
def test_java_client_on_ours(java_client: JavaClient, gantry: GantryCluster) -> None:
    _round(java_client, gantry)


def test_java_client_on_apache(java_client: JavaClient, apache: ApacheCluster) -> None:
    """The control: the driver expects what Apache does."""
    _round(java_client, apache)
