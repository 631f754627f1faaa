"""Every alert fires in the state that it is about, of a real broker seen by a real Prometheus. Every command that an
alert names does there what it says."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gantrymq.demo.ports import free_port
from tests.cli.tool import Tool
from tests.deploy.states import PASSWORD, States, states
from tests.deploy.test_prometheus import DEADLINE_S, PROMETHEUS, asked, prometheus, tool

SHORTER = {"> 3600": "> 1", "> 10000": "> 10", "> 67108864": "> 1000"}
"""Limits of the rules that a test does not wait for. All others, and all expressions, are those that ship."""
EVERY = "2s"
"""Nine brokers are in one loop, which has to answer each look."""
COMMAND = re.compile(r"`gantry ([^`]+)`")


def rules() -> set[str]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"]}


def alerts(url: str) -> dict[str, dict[str, Any]]:
    try:
        return {alert["labels"]["alertname"]: alert for alert in asked(f"{url}/api/v1/alerts")["alerts"]}
    except OSError:
        return {}  # it has not started yet


@pytest.mark.slow
def test_every_alert_fires_and_its_commands_work(tmp_path: Path) -> None:
    tool("prometheus")

    async def work() -> None:
        async with states(tmp_path) as there:
            gone = free_port()
            plain = [f"127.0.0.1:{port}" for name, port in there.ports.items() if name != "guarded"]
            targets = '", "'.join([*plain, f"127.0.0.1:{gone}"])
            login = (
                f'  - job_name: guarded\n    basic_auth: {{ username: admin, password: "{PASSWORD}" }}\n'
                f'    static_configs: [{{ targets: ["127.0.0.1:{there.ports["guarded"]}"] }}]\n'
            )
            with prometheus(tmp_path, targets, login, SHORTER, EVERY) as url:
                fired = await every_alert(there, url)
            await commands_work(there, fired, tmp_path)

    asyncio.run(work())


async def every_alert(there: States, url: str) -> dict[str, dict[str, Any]]:
    """Wait until each has fired; the alerts."""
    fired: dict[str, dict[str, Any]] = {}
    deadline = time.monotonic() + 2 * DEADLINE_S
    while fired.keys() < rules():
        assert time.monotonic() < deadline, f"not fired: {rules() - fired.keys()}"
        await there.happen()
        fired |= await asyncio.to_thread(alerts, url)
        await asyncio.sleep(0.3)
    return fired


async def commands_work(there: States, fired: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Each command of each alert ends well where the alert fired. What the alert calls ID is given."""
    await there.undecided.close()  # else the resumed ones are parked again
    plain, secret = Tool(there.name_servers, tmp_path / "audit.jsonl"), tmp_path / "secret"
    secret.write_text(PASSWORD)
    guarded = Tool(there.guarded_name_servers, tmp_path / "guarded.jsonl")
    admin = ("--access-key", "admin", "--secret-key-file", str(secret))
    rows = await asyncio.to_thread(plain.json, "transactions", "list", "--state", "parked")
    ids = [row["id"] for row in rows if row["group"] == "undecided"]
    assert len(ids) == 2
    done: set[tuple[str, ...]] = set()
    for name, alert in sorted(fired.items()):
        for text in COMMAND.findall(alert["annotations"]["do"]):
            words = text.split()
            if words[:2] == ["transactions", "rollback"]:
                await asyncio.to_thread(plain.text, "transactions", "resume", ids[1], "--yes", "--why", name)
            command = [{"ID": ids[words[1] == "rollback"]}.get(word, word) for word in words]
            if words[1] in ("commit", "rollback", "resume"):
                command += ["--yes", "--why", name]
            if tuple(command) not in done:
                done.add(tuple(command))
                if name == "PermissionsRefused":
                    await asyncio.to_thread(guarded.text, *admin, *command)
                else:
                    await asyncio.to_thread(plain.text, *command)
    assert len(done) >= 10
    rows = await asyncio.to_thread(plain.json, "transactions", "list", "--state", "parked")
    assert not {row["id"] for row in rows}.intersection(ids), "the remedy of the alert is one"
