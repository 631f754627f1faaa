"""What is said about wrong settings."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import Error
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from gantrymq.django import project_settings
from gantrymq.django.checks import check_settings
from gantrymq.errors import ConfigError
from tests.django.conftest import GANTRYMQ, Project
from tests.sql.databases import Place


def said(**changes: Any) -> list[tuple[str, str]]:
    with override_settings(GANTRYMQ={**GANTRYMQ, **changes}):
        return [(str(error.id), error.msg) for error in check_settings()]


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"GROUP": ""}, "E003", 'no "GROUP"'),
        ({"GROUP": "a b"}, "E003", "characters that are not allowed"),
        ({"NAME_SERVERS": []}, "E004", 'no "NAME_SERVERS"'),
        ({"NAME_SERVERS": "here"}, "E004", "host:port"),
        ({"DATABASES": ["default", "third"]}, "E005", "names 'third', which is not in DATABASES ('default', 'second')"),
        ({"DATABASES": "default"}, "E005", "must be a list of database aliases"),
        ({"DATABASES": {"default": "shop", "second": "shop"}}, "E003", "have the same producer group 'shop'"),
        ({"LONGEST_TRANSACTION": 0}, "E006", "longest_transaction is a number of seconds"),
        ({"CLAIM_TIMEOUT": "2"}, "E006", "claim_timeout is a number of seconds"),
        ({"PRODUCER": {"retires": 1}}, "E007", "did you mean 'retries'?"),
        ({"PRODUCER": 5}, "E007", "must be a dictionary"),
        ({"TOPICS": []}, "E002", "unknown key 'TOPICS'"),
    ],
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], code: str, words: str) -> None:
    found = said(**changes)
    assert [number for number, text in found if words in text] == [f"gantrymq.{code}"], found
    with override_settings(GANTRYMQ={**GANTRYMQ, **changes}), pytest.raises(ConfigError, match=words.split("(")[0]):
        project_settings.read().of("default")


def test_groups_of_databases() -> None:
    with override_settings(GANTRYMQ={**GANTRYMQ, "DATABASES": ["default", "second"]}):
        assert {alias: own.group for alias, own in project_settings.read().databases.items()} == {
            "default": "shop", "second": "shop-second",
        }  # fmt: skip
    with override_settings(GANTRYMQ={**GANTRYMQ, "DATABASES": {"second": "billing"}}):
        assert project_settings.read().of("second").group == "billing"


def test_long_requests_in_short_transactions(project: Project, sqlite: Place) -> None:
    project.use(sqlite, ATOMIC_REQUESTS=True, migrate=False)
    assert said() == []
    ((number, words),) = said(LONGEST_TRANSACTION=5)
    assert number == "gantrymq.W001" and "after 5 s a check-back rolls it back" in words


def test_an_engine_that_is_not_supported(project: Project, sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db.backends.sqlite3.base import DatabaseWrapper

    project.use(sqlite, migrate=False)
    monkeypatch.setattr(DatabaseWrapper, "vendor", "oracle")
    ((number, words),) = said()
    assert number == "gantrymq.E008" and "is of the kind 'oracle'" in words


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_database_that_cannot_be_read(project: Project, database: Place) -> None:
    project.use(database)
    database.drop()
    with pytest.raises(SystemCheckError, match=r"gantrymq\.E010"):
        call_command("check", deploy=True, databases=["default"])


def test_errors_are_errors() -> None:
    with override_settings(GANTRYMQ=None):
        (error,) = check_settings()
    assert isinstance(error, Error) and error.hint is not None and "GROUP" in error.hint
