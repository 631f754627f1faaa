"""This version starts on a store that the version before wrote, which is kept as a golden directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.run import ROOT, judge, serving, unpack


@pytest.mark.slow
def test_this_version_starts_on_the_store_of_the_version_before(tmp_path: Path) -> None:
    unpack(tmp_path)
    with serving(tmp_path, ROOT / "src") as server:
        judge(server.name_servers)
