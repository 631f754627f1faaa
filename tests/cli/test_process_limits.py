"""Processes with another umask, and with few descriptors."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq import Message, Producer
from tests.cli.test_serve import address

pytestmark = pytest.mark.slow

FIRST = json.dumps({"username": "admin", "password": "admin-secret"})


def server(root: Path, *, umask: int = 0o022, limits: str | None = None) -> subprocess.Popen[str]:
    command = ("server", "--store", str(root / "store"), "--listen-port", "0", "--name-server-port", "0")
    if limits is None:
        conf = root / "broker.conf"
        inner = json.dumps({"accessKey": "broker", "secretKey": "broker-secret"})
        conf.write_text(
            f"authenticationEnabled=true\nauthorizationEnabled=true\ninitAuthenticationUser={FIRST}\n"
            f"innerClientAuthenticationCredentials={inner}\n"
        )
        command += ("-c", str(conf))
    limited = ["sh", "-c", f'{limits or ":"}; exec "$@"', "sh"]
    return subprocess.Popen(
        [*limited, sys.executable, "-m", "gantrymq.cli.main", *command], cwd=root, text=True, umask=umask,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said, said
    return process.returncode, said


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_secrets_are_of_their_user_and_nothing_is_for_all_to_write(tmp_path: Path, umask: int) -> None:
    process = server(tmp_path, umask=umask)
    assert process.stdout is not None and "is ready" in process.stdout.readline()
    assert ended(process)[0] == 0
    modes = {path: path.lstat().st_mode & 0o777 for path in (tmp_path / "store").rglob("*")}
    (users,) = (path for path in modes if path.name == "users.json")
    assert modes[users] == 0o600
    wrong = {path: oct(mode) for path, mode in modes.items() if mode & (0o077 if umask else 0o002)}
    assert not wrong and len(modes) > 10


def few(number: int) -> str:
    return f"ulimit -n {number}"


@pytest.mark.parametrize("number", [8, 12, 16])
def test_too_few_descriptors_to_start_are_one_sentence(tmp_path: Path, number: int) -> None:
    process = server(tmp_path, limits=few(number))
    _, said = process.communicate(timeout=60)
    status = process.returncode
    assert status == 1 and "Traceback" not in said and "never awaited" not in said
    assert said.splitlines()[-1].startswith("gantry server: ") and "ulimit -n" in said.splitlines()[-1], said


def test_few_descriptors_are_warned_about_and_work(tmp_path: Path) -> None:
    process = server(tmp_path, limits=few(48))
    assert process.stdout is not None
    found = address(process.stdout.readline(), "name server")
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    with Producer("PG", name_servers=found) as producer:
        producer.send(Message("T", b"x"))
    status, said = ended(process)
    assert status == 0 and "may have 48 files and connections open" in said
    assert re.search(r"Max open files\s+48\s+48", limits)


def test_a_server_takes_as_many_descriptors_as_it_may(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4_096 if hard == resource.RLIM_INFINITY else min(hard, 4_096)
    process = server(tmp_path, limits=f"ulimit -Sn {min(most, 256)}; ulimit -Hn {most}")
    assert process.stdout is not None and process.stdout.readline()
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    status, said = ended(process)
    assert status == 0 and "warning" not in said and re.search(rf"Max open files\s+{most}\s", limits)
