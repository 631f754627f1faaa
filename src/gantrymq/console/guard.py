"""The guard in front of all pages: who asks, whether a form is one of ours, and what a browser may do with a page.

No page can forget any of it, because every request comes through here:

    name        a browser must use a name of this console, so that no foreign page leads it here (DNS rebinding)
    person      a session cookie, else ``anonymous``; without either there is only the log-in page
    form        a change is a POST from our own pages (Origin), with the token of the session
    page        the browser runs scripts and styles of this console only, and shows it in no frame
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gantrymq.console.identity import Person
from gantrymq.console.parts import Console
from gantrymq.console.root_path import RootPath
from gantrymq.console.sessions import Session
from gantrymq.runtime.addresses import host_without_port

COOKIE: Final = "gantry_console"
SECURE_COOKIE: Final = "__Host-gantry_console"
"""Browsers accept this name by TLS only, and from this host only."""
SECURE_COOKIE_OF_PATH: Final = "__Secure-gantry_console"
"""Under a path prefix: ``__Host-`` is for cookies of all paths only. By TLS only, too."""
CSRF_FIELD: Final = "csrf"
BODY_MAX_BYTES: Final = 512 * 1024
OPEN_PATHS: Final = ("/login", "/health", "/metrics")
"""Without a session; ``/metrics`` asks for name and password by itself."""
STATIC: Final = "/static/"
LIVE: Final = ("/live/", "/parts/")
"""Pages that refresh themselves: they do not keep a session alive."""
PAGE: Final = "gantrymq.console.page"
"""Where the path of the page, as ``app.PAGES`` has it, is noted in the scope of a request."""
OTHER: Final = "other"
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers would then send "Origin: null" with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = self._console.settings.root_path.inside(scope["path"])
        sending = with_headers(self._counting(send, scope, path), path, self._console.secure_cookies)
        refusal = await self._admit(scope, path, receive)
        if refusal is not None:
            await refusal(scope, receive, sending)
            return
        person = Request(scope).state.person
        if person is None or person.account is None:
            await self._app(scope, receive, sending)
            return
        async with self._console.clients.used(person.account) as console:
            Request(scope).state.console = console
            await self._app(scope, receive, sending)

    def _counting(self, send: Send, scope: Scope, path: str) -> Send:
        """Counts the request when its answer begins."""
        clock, figures = self._console.clock, self._console.figures
        begun = clock.monotonic()

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                page = STATIC if path.startswith(STATIC) else scope.get(PAGE, OTHER)
                figures.answered(page, message["status"], (clock.monotonic() - begun) * 1000)
            await send(message)

        return counting

    async def _admit(self, scope: Scope, path: str, receive: Receive) -> Response | None:
        """Note who asks and what the form says. An answer instead when the request goes no further."""
        headers = Headers(scope=scope)
        if not self._is_our_name(headers.get("host", "")):
            return PlainTextResponse(
                f"this console is not reached by the name {headers.get('host', '')!r}; see `hosts` in its settings\n",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        request = Request(scope, receive)
        session = self._session(request, path)
        person = session.person if session is not None else self._anonymous()
        request.state.session, request.state.person, request.state.form = session, person, {}
        if person is None and path not in OPEN_PATHS and not path.startswith(STATIC):
            return to_login(request, path, self._console.settings.root_path)
        if request.method in ("GET", "HEAD"):
            return None
        return await self._admit_change(request, path, session, headers)

    async def _admit_change(
        self, request: Request, path: str, session: Session | None, headers: Headers
    ) -> Response | None:
        if request.method != "POST":
            return PlainTextResponse(
                "changes are sent by POST\n", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, POST"}
            )
        if not is_from_here(headers):
            return PlainTextResponse(
                "this form was not sent by a page of this console; a proxy in front of it must pass the header Host on "
                "as the browser sends it\n",
                HTTPStatus.FORBIDDEN,
            )
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_MAX_BYTES:
                return PlainTextResponse("the form is too long\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            form = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=5_000)
        except ValueError:
            return PlainTextResponse("this is no form\n", HTTPStatus.BAD_REQUEST)
        request.state.form = form
        if path in OPEN_PATHS:
            return None
        if session is None:
            return PlainTextResponse("log in first\n", HTTPStatus.FORBIDDEN)
        if not session.is_of_form(form.get(CSRF_FIELD, [""])[0]):
            return PlainTextResponse(
                "this form belongs to another session; load its page again and repeat it\n", HTTPStatus.FORBIDDEN
            )
        return None

    def _session(self, request: Request, path: str) -> Session | None:
        token = token_of(request, self._console)
        if not token:
            return None
        return self._console.sessions.of(token, touch=not path.startswith((*LIVE, STATIC)))

    def _anonymous(self) -> Person | None:
        role = self._console.settings.anonymous
        return None if role is None else Person("", role)

    def _is_our_name(self, host: str) -> bool:
        name = host_without_port(host)
        if self._console.settings.hosts:
            return name.lower() in self._console.settings.hosts
        return not self._console.only_local_names or name.lower() in LOCAL_NAMES


def is_from_here(headers: Headers) -> bool:
    """Whether a browser says that one of our own pages sent this. What says neither is no browser, and is refused."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        return False
    if site is not None:
        return site == "same-origin"
    return origin is not None


def to_login(request: Request, path: str, root_path: RootPath) -> Response:
    """The log-in page, which leads back here."""
    login = root_path.url("/login")
    if request.method != "GET" or request.headers.get("hx-request") or path.startswith(LIVE):
        # htmx and event streams cannot show another page by themselves.
        return PlainTextResponse("log in first\n", HTTPStatus.UNAUTHORIZED, {"HX-Redirect": login})
    back = path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{login}?to={quote(back, safe='')}", HTTPStatus.SEE_OTHER)


def with_headers(send: Send, path: str, secure: bool) -> Send:
    """Adds what every answer says to the browser."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers["Cache-Control"] = "public, max-age=3600" if path.startswith(STATIC) else "no-store"
            if secure:
                headers["Strict-Transport-Security"] = "max-age=31536000"
        await send(message)

    return sending


def set_cookie(response: Response, console: Console, token: str) -> None:
    """The cookie of a session. It ends with the browser; the session ends by itself before."""
    response.set_cookie(
        cookie_name(console), token, httponly=True, samesite="strict", secure=console.secure_cookies,
        path=console.settings.root_path.of_cookie,
    )  # fmt: skip


def drop_cookie(response: Response, console: Console) -> None:
    response.delete_cookie(
        cookie_name(console), httponly=True, samesite="strict", secure=console.secure_cookies,
        path=console.settings.root_path.of_cookie,
    )  # fmt: skip


def token_of(request: Request, console: Console) -> str:
    """The token of the session's cookie; empty when there is none."""
    return request.cookies.get(cookie_name(console), "")


def cookie_name(console: Console) -> str:
    if not console.secure_cookies:
        return COOKIE
    return SECURE_COOKIE_OF_PATH if console.settings.root_path.text else SECURE_COOKIE
