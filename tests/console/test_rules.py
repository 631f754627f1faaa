"""The console's rules without a cluster: passwords, settings, sessions, limits, plots, rates, texts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gantrymq.admin.transaction_pages import Summary
from gantrymq.cli.commands import app
from gantrymq.console.as_code import body_literal
from gantrymq.console.forms import parse_time
from gantrymq.console.identity import FileIdentities, Person, Right, Role, User
from gantrymq.console.listing import Kept, page_of
from gantrymq.console.pages.live import event
from gantrymq.console.passwords import NOBODY, hashed, verify
from gantrymq.console.plots import Line, nice_ceiling, plot, runs, shown
from gantrymq.console.samples import BrokerSample, Rates, Sample, rates_between
from gantrymq.console.sessions import ATTEMPTS, ATTEMPTS_OF_ADDRESS, ATTEMPTS_WITHIN_S, Sessions, login_limit
from gantrymq.console.settings import parse_settings, read_settings
from gantrymq.console.views import age, body_text, clean, first_number, hex_text
from gantrymq.errors import ConfigError
from gantrymq.runtime.rng import SystemRng
from tests.console.site import HASH, PASSWORD
from tests.support.sim_clock import SimClock


class Clock(SimClock):
    """Advanced outside an event loop, where nobody waits for a timer."""

    step_ms = 0
    """By how much the wall clock steps each time."""

    def go_on(self, seconds: float) -> None:
        self._now += seconds
        self.skew_ms += self.step_ms


def test_passwords() -> None:
    assert verify(PASSWORD, HASH) and not verify(PASSWORD + " ", HASH) and not verify("", NOBODY)
    assert hashed(PASSWORD, SystemRng()) != hashed(PASSWORD, SystemRng()), "each has a salt of its own"
    assert PASSWORD not in HASH
    for wrong in ("", "plain", "scrypt$1$8$1$AA==$AA==", "scrypt$32768$8$1$AA==$", "scrypt$1048576$8$1$AA==$AA=="):
        with pytest.raises(ConfigError, match="--new-user"):
            verify(PASSWORD, wrong)


def test_who_is_who() -> None:
    async def work() -> None:
        identities = FileIdentities({"otto": User(Role.OPERATOR, HASH)})
        assert await identities.person("otto", PASSWORD) == Person("otto", Role.OPERATOR)
        assert await identities.person("otto", "guess") is None
        assert await identities.person("nobody", PASSWORD) is None

    asyncio.run(work())
    rights = {role: {right for right in Right if Person("x", role).may(right)} for role in Role}
    assert rights[Role.VIEWER] == {Right.LOOK, Right.MACHINE}
    assert rights[Role.OPERATOR] == {Right.LOOK, Right.MACHINE, Right.DECIDE, Right.RESEND, Right.RESET}
    assert rights[Role.ADMIN] == set(Right)


def test_settings(tmp_path: Path) -> None:
    path = tmp_path / "console.toml"
    path.write_text(f'anonymous = "viewer"\nidle_minutes = 5\n[users.otto]\nrole = "operator"\npassword = "{HASH}"\n')
    found = read_settings(path)
    assert (found.anonymous, found.idle_minutes, found.users["otto"].role) == (Role.VIEWER, 5, Role.OPERATOR)
    assert parse_settings({}).anonymous is None, "with a file nobody looks without log-in, unless it says so"
    with pytest.raises(ConfigError, match="cannot read"):
        read_settings(tmp_path / "nothing.toml")
    path.write_text("not toml")
    with pytest.raises(ConfigError, match="no TOML"):
        read_settings(path)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"colour": 1}, "unknown keys: colour"), ({"anonymous": "admin"}, "viewer"), ({"idle_minutes": 0}, "1 to"),
        ({"idle_minutes": True}, "whole number"), ({"hosts": "a"}, "list of texts"), ({"users": []}, "tables"),
        ({"users": {"a": {"role": "root", "password": HASH}}}, "role"), ({"users": {"a": {"role": "admin"}}}, "keys"),
        ({"users": {"a": {"role": "admin", "password": "plain"}}}, "no hash"), ({"behind_proxy": 1}, "true or false"),
    ],
)  # fmt: skip
def test_settings_that_are_wrong(table: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_settings(table)


@pytest.mark.parametrize("step_ms", [0, -86_400_000, 86_400_000])
def test_a_session_ends_when_it_is_not_used_and_at_its_longest(step_ms: int) -> None:
    clock = Clock()
    clock.step_ms = step_ms
    sessions = Sessions(clock, SystemRng(1), idle_s=60, longest_s=150)
    token, session = sessions.begin(Person("otto", Role.OPERATOR))
    assert sessions.of(token) is session and sessions.of("other") is None
    assert session.is_of_form(session.csrf) and not session.is_of_form("") and not session.is_of_form("é")
    for _ in range(2):
        clock.go_on(50)
        assert sessions.of(token) is session
    clock.go_on(40)
    assert sessions.of(token, touch=False) is session
    clock.go_on(30)
    assert sessions.of(token) is None, "a page that refreshes itself does not keep it"
    token, _ = sessions.begin(Person("otto", Role.OPERATOR))
    for _ in range(3):
        clock.go_on(50)
        sessions.of(token)
    clock.go_on(1)
    assert sessions.of(token) is None, "used all the time, and over after its longest time"


@pytest.mark.parametrize("step_ms", [0, -86_400_000, 86_400_000])
def test_attempts_to_log_in(step_ms: int) -> None:
    clock = Clock()
    clock.step_ms = step_ms
    limit = login_limit(clock)
    for _ in range(ATTEMPTS):
        assert limit.wait_s("otto", "a") == 0
        limit.attempt("otto", "a")
    assert limit.wait_s("otto", "a") == pytest.approx(ATTEMPTS_WITHIN_S)
    assert limit.wait_s("otto", "b") == 0 and limit.wait_s("vera", "a") == 0
    for number in range(ATTEMPTS_OF_ADDRESS):
        limit.attempt(f"name{number}", "a")
    assert limit.wait_s("vera", "a") > 0, "many names from one address"
    clock.go_on(ATTEMPTS_WITHIN_S)
    assert limit.wait_s("otto", "a") == 0
    limit.attempt("vera", "b")
    limit.succeeded("vera", "b")
    for _ in range(ATTEMPTS - 1):
        limit.attempt("vera", "b")
    assert limit.wait_s("vera", "b") == 0


def test_an_empty_name_does_not_switch_off_the_limit_of_an_address() -> None:
    limit = login_limit(Clock())
    limit.attempt("", "a")
    for number in range(ATTEMPTS_OF_ADDRESS):
        limit.attempt(f"name{number}", "a")
    assert limit.wait_s("vera", "a") > 0
    limit = login_limit(Clock())
    for _ in range(ATTEMPTS):
        limit.attempt("", "a")
    assert limit.wait_s("", "a") > 0 and limit.wait_s("vera", "a") == 0
    limit.succeeded("", "a")
    assert limit.wait_s("", "a") == 0


def test_pages_of_names() -> None:
    names = [f"Topic{number}" for number in range(120)]
    assert page_of(names, None, 3).names == names[100:]
    assert page_of(names, "TOPIC11", 1).names == ["Topic11", *names[110:120]]
    found = page_of(names, None, 99)
    assert (found.number, found.pages, found.total) == (3, 3, 120)
    assert page_of([], "x", 0).names == []


def test_a_long_list_is_asked_for_once_in_a_while() -> None:
    clock, asked = Clock(), []

    async def ask() -> list[str]:
        asked.append(1)
        return ["a"]

    async def work() -> None:
        kept: Kept[list[str]] = Kept(clock)
        assert await asyncio.gather(kept.get(ask), kept.get(ask)) == [["a"], ["a"]]
        assert len(asked) == 1
        clock.go_on(6)
        await kept.get(ask)
        assert len(asked) == 2

    asyncio.run(work())


def broker(name: str, put: int | None, commits: int, ms: int = 0, error: str = "") -> BrokerSample:
    summary = Summary(
        now_ms=0, open=4, oldest_age_ms=None, parked_records=0, groups=[], groups_more=0, topics={},
        counts={"commits": commits, "rollbacks": 0, "commit_ms_sum": ms},
    )  # fmt: skip
    return BrokerSample(name, name, error=error, put_total=put, summary=summary)


def test_rates_between_two_samples() -> None:
    before = Sample(0, 10.0, (broker("a", 100, 5, 50), broker("b", 10, 0), broker("c", 7, 7)))
    after = Sample(0, 12.0, (broker("a", 140, 9, 250), broker("b", 4, 2, 100), broker("c", 9, 9, error="gone")))
    found = rates_between(before, after)
    assert found.put == 20, "what went back (a restart) and who does not answer are left out"
    assert (found.commits, found.commit_ms, found.open, found.conflicts) == (3, 50, 8, None)
    assert rates_between(after, after) == Rates() and rates_between(before, Sample(0, 13.0, ())) == Rates()


def test_plots() -> None:
    assert [nice_ceiling(value) for value in (0, 0.03, 1, 3, 11, 99, 500)] == [0, 0.05, 1, 5, 20, 100, 500]
    assert [len(run) for run in runs([None, 1, 2, None, 3], 5)] == [2, 1], "a gap where nothing is known"
    drawn = plot("A <b>", [Line("x", [1, 2]), Line("y", [None, None])], "/s", 300)
    assert "A &lt;b&gt;" in drawn and "x 2/s, y –/s" in drawn and drawn.count("<polyline") == 1 and "5 min" in drawn
    assert "<polyline" not in plot("Nothing", [Line("x", [])])
    shown_ = {value: shown(value) for value in (None, 0.0, 9.99, 12.94, 1234, 45_600.0, 2.5e6, 3e9)}
    assert list(shown_.values()) == ["–", "0", "10", "12.9", "1,234", "45.6k", "2.5M", "3G"]


def test_texts() -> None:
    assert [age(ms) for ms in (None, 5, 1_500, 61_000, 3_700_000, 90_000_000)] == [
        "–", "5 ms", "1.5 s", "1 min 1 s", "1 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert clean("a\u202eb\x07c\n") == "a\ufffdb\ufffdc\n", "nothing turns the direction of writing"
    assert body_text(b'{"a":1}') == '{\n  "a": 1\n}' and body_text(b'{"a":1}', "text") == '{"a":1}'
    assert body_text(b"\xff\x00") == hex_text(b"\xff\x00") == "00000000  ff 00" + " " * 42 + "  .."
    assert body_text(b"\xff", "text") == "\ufffd" and body_text(b"plain") == "plain"
    assert body_text(b"[" * 100_000).startswith("[[["), "no JSON that exhausts the stack"
    assert first_number("3.5 2 1") == "3.5" and first_number("x") == "–"
    assert event("figures", "<p>\n\n</p>") == "event: figures\ndata: <p>\ndata: </p>\n\n"
    assert (
        body_literal("é".encode()) == "'é'"
        and body_literal(b"\xff") == "b'\\xff'"
        and "too long" in body_literal(b"x" * 20_000)
    )


def test_times() -> None:
    assert parse_time("1970-01-01 00:00:01") == parse_time("1970-01-01T01:00:01+01:00") == 1_000
    assert parse_time("1700000000000") == 1_700_000_000_000
    with pytest.raises(ConfigError, match="no time"):
        parse_time("now")


def test_the_command() -> None:
    def gantry(*arguments: str, text: str = "") -> tuple[int, str]:
        done = CliRunner().invoke(app, ["console", *arguments], input=text)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout + done.stderr

    assert "transactions first" in gantry("--help")[1]
    status, said = gantry("--host", "0.0.0.0")
    assert status == 2 and "--settings" in said, "whoever may look sees messages"
    assert gantry("--tls-cert", "x.pem")[0] == 2
    status, said = gantry("--settings", "nonexistent/console.toml")
    assert status == 2 and "cannot read" in said
    status, said = gantry("--new-user", "otto", text="longpassword\nlongpassword\n")
    assert status == 0 and '[users."otto"]' in said and "scrypt$" in said and "longpassword" not in said
    assert gantry("--new-user", "otto", text="short\nshort\n")[0] == 2
