"""The code of docs/sql.md runs as it is written."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from gantrymq.testing import LocalCluster

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_examples_of_the_page_run_one_after_the_other(
    gantry: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gantry.create_topic("orders-paid")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, Any] = {}
    *run, topics, migration = blocks
    for block in run:
        # The object of the first block is attached later on: the page shows parts of one program.
        exec(compile(block.replace("with transactions:  ", "if transactions.start() is None:  "), PAGE, "exec"), names)
        if "main" in names:
            asyncio.run(names.pop("main")())
        names.setdefault("closed", []).append(names["transactions"])
    for transactions in names["closed"]:
        transactions.close()
    bodies = sorted(message.body for message in gantry.messages("orders-paid"))
    assert bodies == [b"o-1", b"o-2", b"o-3", b"o-4", b"o-5", b"o-6", b"o-7", b"o-8"]
    compile(topics, PAGE, "exec")
    compile(migration, PAGE, "exec")  # test_alembic runs the same
