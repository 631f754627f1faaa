"""A wrong argument gets the same words from pure Python and from the compiled core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.build_info import build_info


def outcomes(directory: Path, **environment: str) -> dict[str, str]:
    directory.mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "tests.client.wrong_types", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_wrong_argument_gets_the_same_words_from_both(tmp_path: Path) -> None:
    pure = outcomes(tmp_path / "pure", GANTRY_PURE="1")
    assert len(pure) > 200
    assert "aio.Producer.send(message='text')" in pure and "MessageIllegal" in pure["aio.Producer.send(message='text')"]
    unclear = {
        call: words for call, words in pure.items() if not words.startswith(("MessageIllegal: ", "ConfigError: "))
    }
    assert not unclear, "a user reads an error of Python, and not what to do"
    if not build_info().compiled:
        return
    compiled = outcomes(tmp_path / "compiled")
    other = {
        call: (pure.get(call), compiled.get(call))
        for call in pure.keys() | compiled
        if pure.get(call) != compiled.get(call)
    }
    assert not other
