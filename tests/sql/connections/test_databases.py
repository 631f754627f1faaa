"""The databases that the tests of gantrymq.sql run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql.database_servers import SERVERS, lacking
from tests.sql.databases import Place


def test_a_test_has_an_empty_database_of_its_own(database: Place) -> None:
    database.execute("CREATE TABLE things (name VARCHAR(10))", "INSERT INTO things VALUES ('a')")
    assert database.execute("SELECT name FROM things") == [("a",)]


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_all_connections_to_it_can_be_killed(database: Place) -> None:
    connection = database.connect()
    connection.cursor().execute("SELECT 1")
    database.kill_connections()
    with pytest.raises(Exception, match=r"terminat|Lost connection|server has gone away|Connection was killed"):
        connection.cursor().execute("SELECT 1")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_what_is_committed_survives_a_kill_of_a_server(kind: str, tmp_path: Path) -> None:
    if (reason := lacking(kind)) is not None:
        pytest.skip(reason)
    server = SERVERS[kind](tmp_path / "server")
    server.start()
    try:
        place = Place.at(server, "shop")
        place.execute("CREATE TABLE things (name VARCHAR(10))", "INSERT INTO things VALUES ('a')")
        server.kill()
        server.start()
        assert place.execute("SELECT name FROM things") == [("a",)]
    finally:
        server.kill()
