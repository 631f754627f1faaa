"""How projects test their own code: TestCase and the outbox, TransactionTestCase and a broker in this process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
    import sys

    sys.modules["sqlalchemy"] = None  # a Django project has none
    SECRET_KEY = "tests"
    INSTALLED_APPS = ["gantrymq.django", "tests.django.orders"]
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "unused.db"}}
    DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
    ROOT_URLCONF = "tests.django.urls"
    GANTRYMQ = {"GROUP": "shop", "NAME_SERVERS": "127.0.0.1:1"}
"""
HEAD = """
    from django.db import transaction
    from django.test import TestCase, TransactionTestCase, override_settings
    from gantrymq import Message, PushConsumer
    from gantrymq.django import Inbox, running, send
    from gantrymq.django.test import LocalClusterTestCase, outbox
    from gantrymq.errors import ConfigError, MessageIllegal
    from tests.django.orders.models import Order

    class Refusal(Exception):
        pass

    def pay(name, fail=False):
        with transaction.atomic():
            Order.objects.create(name=name, status="paid")
            send(Message("orders", name))
            if fail:
                raise Refusal

    def bodies():
        return [message.body.decode() for message in outbox]
"""
Manage = Callable[..., str]


@pytest.fixture
def manage(tmp_path: Path) -> Manage:
    """``manage("test", code)``: ``manage.py test`` in a project with these tests; what it prints."""

    def run(command: str, code: str = "", *, fails: bool = False, settings: str = "") -> str:
        (tmp_path / "project_settings.py").write_text(textwrap.dedent(SETTINGS) + textwrap.dedent(settings))
        (tmp_path / "tests_of_project.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(code))
        paths = os.pathsep.join([str(tmp_path), str(ROOT / "src"), str(ROOT), *sys.path])
        done = subprocess.run(
            [sys.executable, "-Wd", "-m", "django", *command.split()],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "project_settings"},
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, said
        assert "ResourceWarning" not in said and "UnclosedClientWarning" not in said, said
        return said

    return run


@pytest.mark.slow
def test_a_test_case_collects_what_would_have_been_sent(manage: Manage) -> None:
    said = manage(
        "test tests_of_project",
        """
        class Tests(TestCase):
            @classmethod
            def setUpTestData(cls):
                pay("of the class")

            def test_committed_blocks(self):
                self.assertEqual(bodies(), ["of the class"])
                pay("o-1")
                with transaction.atomic():
                    pay("o-2")
                    self.assertEqual(bodies(), ["of the class", "o-1"])
                self.assertEqual(bodies(), ["of the class", "o-1", "o-2"])
                self.assertEqual(outbox[1].topic, "orders")
                self.assertEqual([message.body for message in outbox[-2:]], [b"o-1", b"o-2"])

            def test_the_next_test_begins_anew(self):
                self.assertEqual(bodies(), ["of the class"])
                outbox.clear()
                self.assertEqual(len(outbox), 0)

            def test_what_was_rolled_back(self):
                with self.assertRaises(Refusal):
                    pay("o-1", fail=True)
                with transaction.atomic():
                    with self.assertRaises(Refusal):
                        pay("o-2", fail=True)
                    pay("o-3")
                self.assertEqual(bodies(), ["of the class", "o-3"])

            def test_a_block_without_savepoint(self):
                with transaction.atomic(savepoint=False):
                    send(Message("orders", "o-1"))
                self.assertEqual(bodies(), ["of the class", "o-1"])

            def test_callbacks_of_on_commit_stay_the_projects_own(self):
                with self.captureOnCommitCallbacks() as callbacks:
                    pay("o-1")
                self.assertEqual(callbacks, [])

            def test_the_same_errors_as_in_production(self):
                with self.assertRaisesMessage(transaction.TransactionManagementError, "with transaction.atomic():"):
                    send(Message("orders", "o-1"))
                with transaction.atomic():
                    with self.assertRaises(MessageIllegal):
                        send(Message("orders", ""))

            def test_requests(self):
                with self.settings(DEBUG=True), self.assertRaises(transaction.TransactionManagementError):
                    self.client.get("/pay/o-1")

            @classmethod
            def tearDownClass(cls):
                super().tearDownClass()
                assert len(outbox) == 0 and not running._running

        class WrongSettings(TestCase):
            def test_they_are_errors_here_too(self):
                with override_settings(GANTRYMQ={"GROUP": "shop"}), self.assertRaises(ConfigError):
                    pay("o-1")
        """,
    )
    assert "Ran 8 tests" in said


@pytest.mark.slow
@pytest.mark.parametrize("migrations", ["", 'MIGRATION_MODULES = {"gantrymq": None}'])
def test_a_local_cluster_test_case_runs_the_real_thing(manage: Manage, migrations: str) -> None:
    said = manage(
        "test tests_of_project",
        """
        inbox = Inbox("shipping", key=lambda message: message.body.decode())

        @inbox.once
        def ship(message):
            Order.objects.filter(name=message.body.decode()).update(status="shipped")

        class Tests(LocalClusterTestCase):
            def test_paid_and_shipped(self):
                self.gantry.create_topic("orders")
                pay("o-1")
                with self.assertRaises(Refusal):
                    pay("o-2", fail=True)
                self.assertEqual([message.body for message in self.gantry.messages("orders")], [b"o-1"])
                self.assertEqual(self.gantry.open_transactions(), [])
                ship(self.gantry.messages("orders"))
                self.assertEqual(Order.objects.get().status, "shipped")

            test_again_from_the_start = test_paid_and_shipped

        class Collected(TestCase):
            def test_both_kinds_in_one_run(self):
                pay("o-1")
                self.assertEqual(bodies(), ["o-1"])
        """,
        settings=migrations,
    )
    assert "Ran 3 tests" in said
    assert "is SQLite in memory, which does not let one thread wait for another" in said


@pytest.mark.slow
def test_a_test_database_in_a_file_needs_no_warning(manage: Manage) -> None:
    said = manage(
        "test tests_of_project",
        """
        class Tests(LocalClusterTestCase):
            def test_paid(self):
                self.gantry.create_topic("orders")
                pay("o-1")
        """,
        settings='DATABASES["default"]["TEST"] = {"NAME": "test.db"}',
    )
    assert "SQLite in memory" not in said


@pytest.mark.slow
def test_check_says_in_plain_words_what_is_wrong(manage: Manage) -> None:
    assert "no issues" in manage("check")
    said = manage("check", settings="GANTRYMQ = {'GRUOP': 'shop', 'NAME_SERVERS': 'nowhere'}", fails=True)
    assert "GANTRYMQ has an unknown key 'GRUOP'" in said and "Did you mean GROUP?" in said
    assert 'GANTRYMQ has no "GROUP": the name of the producer group' in said and "gantrymq.E004" in said
    assert "the settings have no GANTRYMQ" in manage("check", settings="del GANTRYMQ", fails=True)


@pytest.mark.slow
def test_migrate_creates_the_tables_and_takes_them_away(manage: Manage) -> None:
    said = manage("check --deploy --database default", fails=True)
    assert "the database 'default' has no table gantrymq_outcomes" in said
    assert "manage.py migrate gantrymq --database default" in said
    printed = manage("sqlmigrate gantrymq 0001")
    assert "CREATE TABLE IF NOT EXISTS gantrymq_outcomes" in printed and "INSERT" not in printed
    assert "Applying gantrymq.0001_initial... OK" in manage("migrate gantrymq")
    assert "gantrymq_outcomes" not in manage("check --deploy --database default")
    assert "No changes detected" in manage("makemigrations --check gantrymq")
    assert "Unapplying gantrymq.0001_initial... OK" in manage("migrate gantrymq zero")
    assert "has no table" in manage("check --deploy --database default", fails=True)


@pytest.mark.slow
def test_the_checker_says_why_it_cannot_start(manage: Manage) -> None:
    assert "run `manage.py migrate gantrymq" in manage("gantrymq_checker", fails=True)
    assert "takes no messages" in manage("gantrymq_checker --database other", fails=True)
