"""``gantry crash-points`` as a person types it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from gantrymq.cli import crash_points
from gantrymq.cli.commands import app
from gantrymq.cli.simulate import FIXED, HASH_SEED


@pytest.fixture(autouse=True)
def _as_if_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HASH_SEED, FIXED)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(crash_points, "silence", lambda: None)  # other tests of this process want to hear the log


def test_one_crash_is_tried_again() -> None:
    done = CliRunner().invoke(app, ["crash-points", "--short", "--flush", "sync", "--point", "60:3"])
    assert done.exit_code == 0, done.output
    assert "SYNC_FLUSH 60:3: everything holds" in done.output


@pytest.mark.parametrize(("arguments", "says"), [
    (["--point", "5"], "write OPERATION:OUTCOME"),
    (["--flush", "sync", "--point", "100000:0"], "there is no crash 100000:0"),
    (["--flush", "now"], "write sync, async or both"),
])  # fmt: skip
def test_mistakes_are_explained(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["crash-points", "--short", *arguments])
    assert done.exit_code == 2 and says in done.output
