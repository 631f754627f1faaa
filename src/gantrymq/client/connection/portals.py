"""The portals of this process: which one clients get, and what becomes of it at the end and after a fork.

The first client that starts starts the thread, and the last client that closes ends it. A forked child has no such
thread: its memory contains the parent's objects, but not the parent's threads.

An interrupt may come between any two steps of a calling thread; see ``portal``.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import warnings
from typing import Final

from gantrymq.client.connection.portal import Closing, Portal, forget_threads
from gantrymq.client.connection.runtimes import check_interpreter, check_threads

_portals: Final[dict[int, Portal]] = {}
"""The portal of this process, by the process id."""

_inherited: Final[list[Portal]] = []
"""The portals of the processes that this one was forked from. They are kept here for ever, because this process must
not touch their event loops, not even to free them."""

_set_aside: Final[dict[Portal, Portal | None]] = {}
"""For each portal that ``bring`` made: the portal whose place it took."""


def _take_out(portal: Portal) -> bool:
    """The last user of a portal has left. False when another thread acquired the portal meanwhile, perhaps before it
    was taken out here."""
    if _portals.get(os.getpid()) is portal:
        del _portals[os.getpid()]
        if portal.users:
            _portals.setdefault(os.getpid(), portal)
            return False
    return True


def portals() -> list[Portal]:
    """Those that clients get at the moment: one, or none."""
    return list(_portals.values())


def acquire(user: object, drop: Closing) -> Portal:
    """The portal of this process. ``user`` holds it until ``Portal.leave``. A second call for the same user has no
    further effect.

    ``drop``: closes the connections of ``user``, when the process ends and the client was not closed.
    """
    check_threads(type(user).__name__)
    process = os.getpid()
    left: list[Portal] = []
    while True:
        portal = _portals.get(process)
        if portal is None:
            check_interpreter(type(user).__name__)
            mine = Portal(_take_out)
            portal = _portals.setdefault(process, mine)
            if portal is not mine:
                mine.discard()
        portal.start()
        portal.hold(user, drop)
        if _portals.get(process) is portal:
            break
        left.append(portal)  # its last user left just now, and it may or may not have seen this user
    for other in left:
        if other is not portal:
            other.post(other.leave, user)
    return portal


def bring(loop: asyncio.AbstractEventLoop, user: object, drop: Closing) -> Portal:
    """Let clients that start from now on share a portal with this ``loop``. Clients that are running keep theirs.

    ``user`` holds the new portal, as after ``acquire``; ``take_away`` ends it.
    """
    portal = Portal(_take_out, loop)
    _set_aside[portal] = _portals.pop(os.getpid(), None)
    portal.hold(user, drop)
    _portals[os.getpid()] = portal
    portal.start()
    return portal


def take_away(portal: Portal) -> None:
    """End a portal that ``bring`` made, and restore the portal whose place it took, if that one still runs."""
    before = _set_aside.pop(portal, None)
    if _portals.get(os.getpid()) is portal:
        del _portals[os.getpid()]
    portal.stop()
    if before is not None and not before.stopping:
        _portals.setdefault(os.getpid(), before)


def release(user: object) -> None:
    """Leave a portal whose ``acquire`` was interrupted. It is harmless to call this when there is none."""
    portal = _portals.get(os.getpid())
    if portal is not None:
        portal.post(portal.leave, user)


def _at_exit() -> None:
    portal = _portals.get(os.getpid())
    if portal is not None:
        forgotten = portal.forgotten
        portal.stop()
        for user in forgotten:
            words = f"a {type(user).__name__} was not closed; use it in a `with` block, or call close()"
            warnings.warn(words, ResourceWarning, source=user, stacklevel=1)


def _in_child() -> None:
    _inherited.extend(_portals.values())
    _inherited.extend(portal for portal in _set_aside.values() if portal is not None)
    _portals.clear()
    _set_aside.clear()
    forget_threads()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
