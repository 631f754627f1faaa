"""What each official client of RocketMQ 5 gets at the door of our broker, line by line: the lines of five_plays.py.

The short run leaves out the lines that wait for time to go by, the clients that are long in compiling, and the control
by Apache's proxy: ``python -m tests.interop.five_lines`` runs all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import guarded, secured
from tests.interop.five_line import LINES
from tests.interop.five_lines import CLIENTS_OF_LINES, SLOW_TO_COMPILE, Outcome, play_all, table
from tests.interop.five_places import our_door

DOCUMENT = Path(__file__).parents[2] / "docs" / "grpc-clients.md"
PLAYED = [client for client in CLIENTS_OF_LINES if client not in SLOW_TO_COMPILE]
SHORT = [line for line in LINES if line.short]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Outcome]]:
    """All lines of all clients are played at a time: they mostly wait."""
    if guarded.is_on() or secured.is_on():
        pytest.skip("clients of RocketMQ 5 show no certificates; test_five_clients.py has TLS and users")
    directory = tmp_path_factory.mktemp("five-lines")
    with our_door(directory / "broker") as door:
        yield play_all(PLAYED, SHORT, door, directory)


@pytest.mark.parametrize("line", [line.name for line in SHORT])
@pytest.mark.parametrize("client", PLAYED)
def test_a_client_gets_what_the_line_says(client: str, line: str, outcomes: dict[tuple[str, str], Outcome]) -> None:
    found = outcomes[client, line]
    if found.skipped:
        pytest.skip(found.text)
    assert found.ok, found.text


def test_the_page_has_all_lines() -> None:
    rows = [text.split("|")[1].strip() for text in DOCUMENT.read_text().splitlines() if text.startswith("| ")]
    assert [line.name for line in LINES] == [row for row in rows if row in {line.name for line in LINES}]
    assert len(LINES) * len(CLIENTS_OF_LINES) >= 200
    assert table({}).count("\n") > len(LINES)
