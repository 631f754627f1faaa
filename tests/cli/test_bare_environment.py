"""Programs in hardened containers: a user without a name and a home, an empty environment, read-only disks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import namespaces

READY = ("broker --store /srv/other --listen-port 0", "console --port 0 --audit /srv/audit.jsonl")
"""The starts that have all they need; the others end with a sentence."""


@pytest.mark.slow
def test_every_command_works_or_says_what_is_missing(tmp_path: Path) -> None:
    words = namespaces.python(namespaces.bare(tmp_path), "tests.cli.bare_environment", limit_s=250)
    found = json.loads(words.splitlines()[-1])
    assert found["uid"] == 12345
    assert found["tried"] > 100
    assert not found["faults"], json.dumps(found["faults"], indent=2)
    assert "\\u20ac" in found["shown"][1], found["shown"]  # which latin-1 lacks
    status, sentence = found["commit"]
    assert status == 2 and "has no home directory here" in sentence and "--audit" in sentence, sentence
    assert found["audited"][0] == 0, found["audited"]
    assert '"who": "uid 12345"' in found["audit"]
    for words, said in found["starts"].items():
        assert "Traceback" not in said and ("is ready" in said) == (words in READY), (words, said)


def test_a_network_that_is_down(tmp_path: Path) -> None:
    line = namespaces.inside(namespaces.NO_NETWORK, sys.executable, "-m", "gantrymq.cli.main", "topic", "list")
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=namespaces.ROOT)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "cannot reach 127.0.0.1:9876" in done.stderr, done.stderr
