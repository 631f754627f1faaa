"""The primary of a group is lost under load, and another broker takes its place by itself; see ``election.py``."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.kill.election import run
from tests.kill.group import Etcd


@pytest.mark.kill
@pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)")
def test_a_group_elects_another_primary_and_nothing_answered_is_lost_or_asked_again(tmp_path: Path) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    _, times = run(tmp_path, seed, ["kill", "stop", "handover", "pause"])
    print("nothing was decided for", times)
