"""The ``gantry`` commands against Apache's servers: the stories of ``tests/cli``, told there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import stories
from tests.cli.tool import Tool
from tests.interop.apache import ApacheCluster


@pytest.fixture
def tool(apache: ApacheCluster, tmp_path: Path) -> Tool:
    return Tool(apache.name_servers, tmp_path / "audit.jsonl")


@pytest.mark.feature("gantry topic")
def test_topics(tool: Tool, apache: ApacheCluster) -> None:
    stories.topics(tool, typed=not apache.version.startswith("4"))


@pytest.mark.feature("gantry message")
def test_messages(tool: Tool) -> None:
    stories.messages(tool)


@pytest.mark.feature("gantry group")
def test_groups(tool: Tool) -> None:
    stories.groups(tool)


@pytest.mark.feature("gantry consumer")
def test_consumers(tool: Tool) -> None:
    stories.consumers(tool)


@pytest.mark.feature("gantry cluster")
def test_cluster(tool: Tool, apache: ApacheCluster) -> None:
    stories.cluster(tool, "V" + apache.version.replace(".", "_"))


@pytest.mark.feature("gantry transactions")
def test_transactions(tool: Tool) -> None:
    stories.transactions(tool)


@pytest.mark.feature("gantry transactions: parked")
def test_parked_transactions(tool: Tool) -> None:
    stories.parked(tool)
