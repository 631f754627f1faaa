"""Pairs of a client and a server. All scenarios of a pair (``../java/*.java``) are played by one JVM, at the same time:
most of their time is waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.ours import GantryCluster
from tests.interop.process import Process

PAIRS = {
    "4.9.8-gantry": ("4.9.8", "gantry"),
    "5.5.0-gantry": ("5.5.0", "gantry"),
    "4.9.8-apache-4.9.7": ("4.9.8", "apache_4"),
    "5.5.0-apache-5.5.0": ("5.5.0", "apache_5"),
}
"""Each client on ours; each on the server of its time as the control."""
Server = GantryCluster | ApacheCluster


@dataclass(frozen=True)
class Played:
    """What a scenario printed."""

    process: Process
    scenario: str

    def steps(self, step: str | None = None, **fields: object) -> list[dict[str, Any]]:
        """Its steps, perhaps only those of a name and with these fields."""
        found = [entry for entry in self.process.steps(step) if entry.get("scenario") == self.scenario]
        return [entry for entry in found if fields.items() <= entry.items()]

    def one(self, step: str, **fields: object) -> dict[str, Any]:
        """The only step of its kind."""
        found = self.steps(step, **fields)
        assert len(found) == 1, f"{step} {fields}: {found}"
        return found[0]

    def sent(self) -> dict[str, dict[str, Any]]:
        """What was sent by its name."""
        return {entry["what"]: entry for entry in self.steps("sent")}

    def got(self, who: str = "push") -> dict[str, list[dict[str, Any]]]:
        """What was received, by body, in the order of time."""
        found: dict[str, list[dict[str, Any]]] = {}
        for entry in self.steps("got", who=who):
            found.setdefault(entry["body"], []).append(entry)
        return found

    def finished(self) -> Played:
        """Wait for the end of the scenario, which has to be a good one, with nothing awaited in vain."""
        end = self.process.await_step("end", 300, scenario=self.scenario)
        assert end["good"], f"{end}{self.process.last_words()}"
        missed = self.steps("missed")
        assert not missed, f"{missed}{self.process.last_words()}"
        return self


@pytest.fixture(scope="session", params=PAIRS.values(), ids=PAIRS.keys())
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Versions of the client, and the fixture of the server."""
    client, server = request.param
    return str(client), str(server)


@pytest.fixture(scope="session")
def java_client(pair: tuple[str, str], jdk: None, tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    return JavaClient(pair[0], tmp_path_factory.mktemp(f"java-{pair[0]}"))


@pytest.fixture(scope="session")
def server(pair: tuple[str, str], request: pytest.FixtureRequest) -> Server:
    cluster: Server = request.getfixturevalue(pair[1])
    return cluster


@pytest.fixture(scope="session")
def prefix(pair: tuple[str, str]) -> str:
    """Of all topics and groups of this pair."""
    return f"J{pair[0].replace('.', '')}"


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, java_client: JavaClient, server: Server, prefix: str) -> Iterator[Process]:
    """The JVM that plays whatever scenarios the tests of this run need."""
    scenarios = wanted(request, "SCENARIO")
    if java_client.version.startswith("4"):
        scenarios = [name for name in scenarios if not name.endswith("Five")]
    process = java_client.play("Scenarios", server.name_servers, prefix, *scenarios)
    beside = [java_client.play(name, server.name_servers, prefix) for name in wanted(request, "BESIDE")]
    yield process
    for each in (process, *beside):
        each.kill()


def wanted(request: pytest.FixtureRequest, name: str) -> list[str]:
    """What the modules of the collected tests name, each once."""
    modules = (item.getparent(pytest.Module) for item in request.session.items)
    found = (getattr(module.obj, name, None) for module in modules if module is not None)
    return sorted({scenario for scenario in found if scenario is not None})


@pytest.fixture
def played(request: pytest.FixtureRequest, stage: Process) -> Played:
    """The scenario of this module, when it is over."""
    return Played(stage, request.module.SCENARIO).finished()
