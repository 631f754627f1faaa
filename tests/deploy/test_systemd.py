"""The units of deploy/systemd: systemd's own programs read them, and the servers notify as ``Type=notify`` wants it."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.cli.serving.running import STOP_SECONDS
from tests.cli.test_serve import program, server
from tests.deploy.test_image import check_command
from tests.runtime.test_service_notices import service_manager, told

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
EXPOSURE_MAX = 1.5
"""What `systemd-analyze security` may say, of 10; it says 1.2 (version 252) for each of them."""
COMMAND = "/usr/bin/gantry"


def settings(unit: Path) -> dict[str, str]:
    """The last value of each key."""
    return dict(re.findall(r"(?m)^([A-Za-z]+)=(.*)$", unit.read_text()))


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=120)


def installed(directory: Path) -> list[str]:
    """The units as they would be where ``gantry`` is this environment's."""
    paths = []
    for unit in [*SERVICES, *UNITS.glob("*.timer")]:
        path = directory / unit.name
        path.write_text(unit.read_text().replace(COMMAND, str(Path(sys.executable).parent / "gantry")))
        paths.append(str(path))
    return paths


def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    checked = analyze("verify", *installed(tmp_path))
    assert checked.returncode == 0 and not checked.stdout, checked.stdout + checked.stderr
    assert not re.findall(r"gantry-\w+\.service:.*", checked.stderr), checked.stderr


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_little_of_the_machine_is_exposed_to_a_service(unit: Path, tmp_path: Path) -> None:
    path = tmp_path / unit.name
    shutil.copy(unit, path)
    checked = analyze("security", "--offline=yes", "--no-pager", str(path))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", checked.stdout)
    if found is None and "unrecognized option" in checked.stderr:
        pytest.skip("this systemd-analyze cannot look at a file (older than version 250)")
    assert found is not None, checked.stdout + checked.stderr
    assert float(found[1]) <= EXPOSURE_MAX, checked.stdout


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_exists(unit: Path) -> None:
    command, *words = settings(unit)["ExecStart"].split()
    assert command == COMMAND
    check_command(words)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_systemd_waits_longer_than_an_orderly_stop_may_take(unit: Path) -> None:
    assert float(settings(unit)["TimeoutStopSec"]) > STOP_SECONDS


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_the_user_of_a_service_can_read_its_settings(unit: Path) -> None:
    """systemd gives all directories to the user of the service but that of the configuration: root keeps it."""
    found = settings(unit)
    assert found["User"] != "root" and int(found["ConfigurationDirectoryMode"], 8) & 0o005 == 0o005


@pytest.mark.slow
def test_a_server_notifies_that_it_is_ready_alive_and_stops(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with service_manager(address) as heard:
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"}
        with program(*server(tmp_path / "store"), **environment) as running:
            lines = told(heard)
            assert lines[0] == "READY=1" and "name server 127.0.0.1:" in lines[1]
            assert told(heard) == ["WATCHDOG=1"] == told(heard)
            running.process.send_signal(signal.SIGTERM)
            while (lines := told(heard)) == ["WATCHDOG=1"]:
                pass
            assert lines[0] == "STOPPING=1"
            assert running.ended()[0] == 0


@pytest.mark.slow
def test_the_brokers_of_a_server_do_not_notify_in_its_name(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with service_manager(address) as heard:
        arguments = server(tmp_path / "store", "--brokers", "2")
        with program(*arguments, NOTIFY_SOCKET=address) as running:
            assert told(heard)[0] == "READY=1"
            running.process.send_signal(signal.SIGTERM)
            assert told(heard)[0] == "STOPPING=1"
            assert running.ended()[0] == 0
        heard.setblocking(False)
        with pytest.raises(BlockingIOError):
            told(heard)
