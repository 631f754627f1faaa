"""Follows every link, form and part of every page, as a person would who tries everything."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

from gantrymq.console.app import PAGES

NO_URL = {"value", "content", "placeholder", "d", "aria-label", "title"}
"""Attributes that hold a text, which may begin like a path."""
FILLED_IN = {"why": "ticket 4711", "key": "maxMessageSize", "value": "4194304", "time": "2026-01-31 12:00"}
"""What is typed into fields that are empty."""

TELLING = {"state", "action", "which", "as"}
"""Parameters whose value makes another kind of page."""


@dataclass
class Form:
    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def sent(self) -> list[dict[str, list[str]]]:
        """What each of its buttons sends."""
        return [_grouped([*self.fields, *button]) for button in ([[one] for one in self.buttons] or [[]])]


def _grouped(fields: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return found


class Page(HTMLParser):
    """The paths and forms of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.forms: list[Form] = []
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.urls += [
            value for name, value in values.items()
            if name not in NO_URL and (value.startswith(("/", "?")) or "://" in value)
        ]  # fmt: skip
        if tag == "form":
            self.forms.append(Form(values.get("method", "get"), values.get("action", "")))
        elif self.forms and tag in ("input", "button", "select", "option"):
            self._take(tag, values)

    def _take(self, tag: str, values: dict[str, str]) -> None:
        form, name = self.forms[-1], values.get("name", "")
        if tag == "button" and name:
            form.buttons.append((name, values["value"]))
        elif tag == "input" and name:
            form.fields.append((name, values.get("value") or FILLED_IN.get(name, "")))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "value" in values:
            form.fields = [*(one for one in form.fields if one[0] != self._select), (self._select, values["value"])]

    def handle_data(self, data: str) -> None:
        """An option without a value is its text."""
        if self._select and data.strip() and not any(name == self._select for name, _ in self.forms[-1].fields):
            self.forms[-1].fields.append((self._select, data.strip()))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""


def page_of(method: str, path: str) -> str:
    """The entry of ``PAGES`` that answers a path; "" for anything else."""
    found = []
    for asked, page, _, _ in PAGES:
        pattern = re.sub(r"\{\w+:path\}", ".+", page)
        pattern = re.sub(r"\{\w+\}", "[^/]+", pattern)
        if asked == method and re.fullmatch(pattern, path):
            found.append(page)
    return found[0] if found else ""


@dataclass
class Walk:
    """One walk through everything under a prefix. Each kind of page is looked at once."""

    http: httpx.AsyncClient
    address: str
    prefix: str
    seen: set[tuple[str, ...]] = field(default_factory=set)
    pages: set[tuple[str, str]] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    """URLs that lead out of the prefix, each with the page that has it."""

    async def from_page(self, url: str) -> None:
        waiting = [url]
        while waiting:
            waiting += await self._visit("GET", waiting.pop(0), None)

    async def look_at(self, url: str) -> None:
        await self._visit("GET", url, None)

    async def _visit(self, method: str, url: str, form: dict[str, list[str]] | None) -> list[str]:
        inside, query = urlsplit(url).path.removeprefix(self.prefix) or "/", urlsplit(url).query
        kind = page_of(method, inside) or inside
        told = [*parse_qsl(query), *((name, got[0]) for name, got in (form or {}).items())]
        values = [f"{name}={value}" if name in TELLING else name for name, value in told]
        key = (method, kind, *sorted(values))
        if key in self.seen or inside == "/logout":
            return []
        self.seen.add(key)
        self.pages.add((method, kind))
        headers = {"Origin": self.address} if form is not None else {}
        async with self.http.stream(method, url, data=form, headers=headers) as answer:
            if "event-stream" in answer.headers.get("content-type", ""):
                text = ""
                async for line in answer.aiter_lines():
                    text += line.removeprefix("data: ") + "\n"
                    if not line and "figures" in text:
                        break
            else:
                text = (await answer.aread()).decode()
        # A page that says what the cluster did not do (502) is a page like any other.
        assert answer.status_code != 500, (method, url, answer.status_code, text)
        leads = [answer.headers[name] for name in ("location", "hx-redirect") if name in answer.headers]
        kind_told = answer.headers.get("content-type", "")
        if "html" not in kind_told and "event" not in kind_told:
            return self._inside(url, leads)
        found = Page(text)
        further = self._inside(url, [*leads, *found.urls])
        for one in found.forms:
            (action,) = self._inside(url, [one.action]) or [""]
            for sent in one.sent() if action else []:
                if one.method == "post":
                    further += await self._visit("POST", action, sent)
                else:
                    further.append(f"{action}?{httpx.QueryParams(sent)}")
        return further

    def _inside(self, page: str, urls: list[str]) -> list[str]:
        """Those that stay in the prefix, in full; the others are noted."""
        found = []
        for url in urls:
            whole = urljoin(page, url)
            bare = whole.partition("?")[0].partition("#")[0]
            if bare == self.address + self.prefix or bare.startswith(f"{self.address}{self.prefix}/"):
                found.append(whole.partition("#")[0])
            elif not url.startswith("http://www.w3.org/"):
                self.left.append(f"{page}: {url}")
        return found
