"""The image and its compose file, without a container engine: what can be read from them, and process 1 for real.

``python -m tests.deploy.image DIR`` builds and starts the whole image (minutes).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from typer.main import get_command

from gantrymq.broker.config import from_properties
from gantrymq.cli.commands import app
from gantrymq.cli.serving.running import STOP_SECONDS
from tests.cli.test_serve import program, server
from tests.deploy.containerfile import FILE, stages

ROOT = Path(__file__).parents[2]
COMPOSE = FILE.with_name("compose.yaml")
commands: Any = get_command(app)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return found


def options_of(command: str) -> set[str]:
    found = commands.get_command(click.Context(commands), command)
    return {option for parameter in found.params for option in parameter.opts}


def check_command(words: list[str]) -> None:
    """A command line of gantry that exists, with options that exist."""
    unknown = {word for word in words if word.startswith("--")} - options_of(words[0])
    assert not unknown, (words[0], unknown)


def test_the_image_is_started_as_a_user_and_by_an_init_without_a_shell() -> None:
    stage = stages()[-1]
    assert stage.last("USER").split(":")[0].isdigit(), "Kubernetes can only tell from a number that it is not root"
    assert stage.last("USER") not in ("0", "0:0")
    entry = stage.words("ENTRYPOINT")
    assert entry == ["/usr/bin/tini", "--", "gantry"]
    check_command(stage.words("CMD"))
    assert stage.last("STOPSIGNAL") == "SIGTERM"
    assert stage.words("CMD")[2].startswith(f"{stage.last('VOLUME')}/")


def test_the_health_check_asks_the_port_that_the_server_is_given() -> None:
    stage = stages()[-1]
    port = stage.words("CMD")[stage.words("CMD").index("--http-port") + 1]
    assert f"http://127.0.0.1:{port}/health" in stage.words("HEALTHCHECK")[2]
    assert port in stage.last("EXPOSE").split()


def test_what_the_image_copies_is_there_and_what_it_has_no_use_for_is_not() -> None:
    for name, rest in (step for stage in stages() for step in stage.steps):
        if name == "COPY" and not rest.startswith("--from="):
            for path in rest.split()[:-1]:
                assert (ROOT / path).exists(), path
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", "tests"} <= set(ignored) and "src" not in ignored


def test_the_versions_of_the_lock_file_are_read() -> None:
    command = next(rest for name, rest in stages()[0].steps if name == "RUN" and "versions.txt" in rest)
    read = subprocess.run(
        ["sh", "-c", command.partition(" > ")[0].replace("/source/", f"{ROOT}/")],
        capture_output=True,
        text=True,
        check=True,
    )
    pins = read.stdout.split()
    assert len(pins) > 20 and all(pin.count("==") == 1 and "\\" not in pin for pin in pins)
    assert any(pin.startswith("msgspec==") for pin in pins)


@pytest.mark.slow
def test_the_compose_file_keeps_the_published_schema() -> None:
    pytest.importorskip("check_jsonschema")
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    checked = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_services_of_the_compose_file_are_confined_and_have_time_to_stop() -> None:
    services = compose()["services"]
    for name in ("server", "console", "example"):
        one = services[name]
        assert one["read_only"] is True and one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        if "entrypoint" not in one:
            check_command(one["command"])
            assert int(one["stop_grace_period"].removesuffix("s")) > STOP_SECONDS
    for one in services.values():
        for port in one.get("ports", []):
            assert port.startswith("127.0.0.1:"), "only this machine reaches them"


def test_the_compose_file_fits_itself_and_the_programs() -> None:
    whole = compose()
    services = whole["services"]
    for one in services.values():
        for config in one.get("configs", []):
            assert config["source"] in whole["configs"]
    alerts = whole["configs"]["alerts"]["file"]
    assert (COMPOSE.parent / alerts).exists()
    settings, unknown = from_properties(whole["configs"]["broker"]["content"])
    assert not unknown
    scraped = yaml.safe_load(whole["configs"]["prometheus"]["content"])["scrape_configs"][0]["static_configs"][0]
    assert scraped["targets"] == [f"server:{settings.network.http_port}"]
    words = services["server"]["command"]
    assert words[words.index("--host") + 1] == "server", "the name under which the other services reach it"
    script = ROOT / services["example"]["entrypoint"][-1].lstrip("/")
    assert script.exists() and "--name-servers" in (script.parent / "own_server.py").read_text()


def in_own_namespace() -> tuple[str, ...]:
    """What makes a program process 1 of a namespace, below the image's init; skips where that cannot be done."""
    tini = shutil.which("tini")
    if tini is None:
        pytest.skip("tini is not installed: apt-get install tini")
    before = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a namespace of processes needs root and unshare (util-linux)")
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespace of processes can be made here")
    return (*before, tini, "--")


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.slow
def test_as_process_1_it_reaps_orphans_and_stops_in_order_at_sigterm(tmp_path: Path) -> None:
    with program(*server(tmp_path / "store"), before=in_own_namespace()) as running:
        running.ready()
        (first,) = children(running.process.pid)
        # Two processes whose parent ends at once: one is over soon, the other when it is told.
        orphan = "import os, sys; os.fork() and os._exit(0); os.setsid(); sys.exit()"
        for _ in range(3):
            inside = ["nsenter", "--target", str(first), "--pid", "--mount", sys.executable, "-c", orphan]
            subprocess.run(inside, check=True, timeout=60)
        listed = ["nsenter", "--target", str(first), "--pid", "--mount", "sh", "-c"]
        look = (
            "for n in 1 2 3 4 5 6 7 8 9 10; do grep -q '^State:.Z' /proc/[0-9]*/status || exit 0; sleep 1; done; exit 1"
        )
        assert subprocess.run([*listed, look], check=False, timeout=60).returncode == 0, "orphans are not reaped"
        os.kill(first, signal.SIGTERM)
        status, _, err = running.ended()
        assert (status, err) == (0, "")
    assert not (tmp_path / "store" / "abort").exists()


def test_a_list_of_json_is_what_starts_it() -> None:
    """A string would be given to a shell, which hands no signals on."""
    for name, rest in stages()[-1].steps:
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
