"""What needs a person opens the overview, each with the page where something is done about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.console.app import PAGES
from gantrymq.console.attention import WAYS, need_of, needs_of
from gantrymq.console.root_path import RootPath
from gantrymq.console.views import commands, environment
from gantrymq.doctor import Finding, Kind, Severity
from gantrymq.doctor.judging import RULES
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.consumer import SendBack
from tests.console.site import Site, on_site  # first: it skips where the console's packages are missing
from tests.console.walk import page_of

GROUP = 'a/b "c" & ü'


def finding(rule: str, kind: Kind = Kind.GROUP, subject: str = GROUP, **more: object) -> Finding:
    return Finding(rule, Severity.ERROR, kind, subject, "Something is wrong.", "Do `gantry doctor`.", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [*WAYS, "another"])
@pytest.mark.parametrize("kind", list(Kind))
def test_a_link_leads_to_a_page_that_exists(rule: str, kind: Kind) -> None:
    link = need_of(finding(rule, kind)).link.partition("?")[0]
    assert (
        page_of("GET", link) in {path for method, path, _, _ in PAGES if method == "GET"} if link else rule == "another"
    )


def test_the_rules_that_have_pages_of_their_own_exist() -> None:
    names = {rule.__name__.replace("_", "-") for rule in RULES}
    assert WAYS.keys() <= names


def test_findings_in_the_parts_of_the_page() -> None:
    note = Finding("autocreate", Severity.NOTE, Kind.BROKER, "all", "a note", "an advice")
    unseen = finding("not-told", Kind.BROKER, "all", unseen=True)
    found = needs_of(7, [finding("parked"), unseen, note])
    assert [need.finding.rule for need in found.urgent] == ["parked"]
    assert [need.finding.rule for need in found.unseen] == ["not-told"] and found.unseen[0].link == ""
    assert [need.finding for need in found.notes] == [note]


def test_each_is_written_with_its_link_and_what_is_in_it_is_escaped() -> None:
    template = environment(RootPath("/gantry")).get_template("parts/needs.html")
    nasty = finding("parked", subject="<b>")
    page = template.render(needs=needs_of(1_700_000_000_000, [nasty]), shown=5)
    assert 'href="/gantry/transactions?state=parked&amp;group=%3Cb%3E"' in page and "<b>Something" in page
    assert "<code>gantry doctor</code>" in page and "<b>:" not in page
    assert "Nothing needs you" in template.render(needs=needs_of(1, []), shown=5)
    assert "Of what may be seen" in template.render(needs=needs_of(1, [finding("x", unseen=True)]), shown=5)
    assert "Looking" in template.render(needs=None, shown=5)
    assert "and 2 more" in template.render(needs=needs_of(1, [nasty] * 7), shown=5)


def test_commands_in_a_sentence() -> None:
    assert commands("Do `a <b>` now.") == "Do <code>a &lt;b&gt;</code> now."
    assert commands("a group ` of <two>") == "a group ` of &lt;two&gt;"


@pytest.mark.slow
def test_what_a_real_broker_has(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.browser.log_in("otto")
        assert "Nothing needs you." in await there.browser.get("/")
        await there.half("ABC", "wallet")
        async with Admin(there.name_servers) as admin:
            await admin.create_topic("Orders", 1)
            await admin.groups.put("newsletter", lambda known: known)
            sent = await there.running.sent("Orders", b"x")
            message = await admin.messages.by_place_id(sent.msg_id)
            assert message is not None
            header = SendBack(group="newsletter", offset=message.log_offset, delay_level=-1)
            await there.running.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        console = there.browser.http._transport.app.state.console  # type: ignore[attr-defined]
        while True:
            console.attention._looked = -1e9  # do not wait until a look is old
            page = await there.browser.get("/parts/needs")
            if "Producer group wallet has 1 open transaction" in page and "newsletter gave up 1 message" in page:
                break
            await asyncio.sleep(0.1)
        assert 'href="/transactions?group=wallet"' in page and 'href="/dead-letters/newsletter"' in page
        assert page.index("wallet") < page.index("newsletter"), "the worst first"
        whole = await there.browser.get("/")
        assert whole.index("What needs you") < whole.index("Messages in")

    on_site(work, tmp_path, transaction_time_out=1_000, transaction_check_interval=1_000)
