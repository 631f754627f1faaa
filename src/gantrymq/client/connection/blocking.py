"""The base of all blocking clients: the thread with the event loop, start and close, and the check for a fork."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

from gantrymq.client.connection import portal, portals
from gantrymq.client.connection.blocking_call import Work
from gantrymq.client.connection.runtimes import refuse_copy
from gantrymq.errors import Closed, UsedAfterFork

T = TypeVar("T")


class _Client(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def drop(self) -> None: ...

    @property
    def client_id(self) -> str: ...


C = TypeVar("C", bound=_Client)


class Blocking(Generic[C]):
    """What all blocking clients share: the portal through which they call the event loop, ``start`` and ``close``, and
    the process they belong to."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._portal: portal.Portal | None = None
        self._started = False
        self._closed = False
        self._pid = os.getpid()

    def __reduce__(self) -> NoReturn:
        refuse_copy(self)

    def start(self) -> None:
        """Start the client, like entering a ``with`` block. May be called again. If it fails, the client is closed."""
        self._check_process()
        if self._closed:
            raise Closed(f"this {type(self).__name__} is closed; create a new one")
        if self._started:
            return
        portal.check_thread()
        try:
            if self._portal is None:
                self._portal = portals.acquire(self._client, self._client.drop)
            self._portal.call(self._client.start)
            self._started = True
        except Exception:
            self.close()
            raise
        except BaseException:
            self._close_soon()
            raise

    def close(self) -> None:
        """Refuse new calls, wait for running ones (``close_timeout_ms`` at most; then they raise Closed), disconnect.

        May be called again. Does nothing in a forked child, whose parent still uses the connections. A ``close`` that
        is interrupted continues in the background, and a second call waits for its end. Raises RuntimeError in a
        callback on the client's own thread, and leaves the client open.
        """
        if os.getpid() != self._pid:
            return
        opened = self._portal
        if opened is None:
            self._closed = True
            return
        portal.check_thread()
        try:
            self._closed = True
            with contextlib.suppress(Closed):  # another thread has closed the client, and the event loop has ended
                opened.call(opened.shut, self._client.close, self._client)
        except BaseException:
            self._close_soon()
            raise
        self._portal = None
        opened.join()

    def _close_soon(self) -> None:
        """Begin to close the client, without waiting."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        opened = self._portal
        if opened is None:
            portals.release(self._client)
        else:
            opened.post(opened.begin_to_shut, self._client.close, self._client)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._close_soon()  # also when the interrupt comes after the start
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsedAfterFork(
                f"this {type(self).__name__} belongs to the parent process; create a new one after the fork"
            )

    def _open_portal(self) -> portal.Portal:
        self._check_process()
        opened = self._portal
        if opened is None or self._closed:
            name = type(self).__name__
            raise Closed(
                f"this {name} is closed; create a new one"
                if self._closed
                else f"this {name} is not started; call start() or use it in a `with` block"
            )
        return opened

    @property
    def client_id(self) -> str:
        """How brokers name this client; empty before the first connection."""
        return self._client.client_id

    def _call(self, work: Work[T], *arguments: Any) -> T:
        return self._open_portal().call(work, *arguments)
