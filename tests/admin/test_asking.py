"""Finding the broker that is meant, and what refusals say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.aio import Admin
from gantrymq.errors import ConfigError, RequestRejected
from gantrymq.protocol.codes import RequestCode
from tests.support.brokers import cluster


def test_brokers_are_chosen_by_name_or_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            async with Admin(running.name_server.address) as admin:
                address = running.broker.address
                for named in (None, "broker-a", address):
                    assert await admin.brokers.addresses(named) == {"broker-a": address}
                with pytest.raises(ConfigError, match=f"broker-a.*{address}"):
                    await admin.brokers.addresses("broker-b")
                with pytest.raises(ConfigError, match="DefaultCluster"):
                    await admin.groups.all("no such cluster")
                with pytest.raises(RequestRejected, match="does not know this request") as refused:
                    await admin.brokers._asking.ask(address, RequestCode.BROKER_HEARTBEAT, what="a question")
                assert refused.value.address == address

    asyncio.run(asyncio.wait_for(scenario(), 30))
