"""The places at which CPython looks for signals, and an interrupt at one of them.

CPython runs signal handlers in the main thread: where a function begins, behind a call, and at a jump back. A trace
function of ``sys.settrace`` sees each of these places and can raise there, as a handler would.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

CALLS: Final = ("CALL", "WITH_EXCEPT_START", "INSTRUMENTED_CALL")
JUMPS_BACK: Final = ("JUMP_BACKWARD", "INSTRUMENTED_JUMP_BACKWARD")


class Interrupt(BaseException):
    """What the handler raises; a BaseException, as KeyboardInterrupt is."""


Handler = Callable[[], None]
HERE: Final = os.path.dirname(__file__)


def is_ours(frame: FrameType) -> bool:
    """Whether it is the harness that runs there, and not what is tried."""
    return frame.f_code.co_filename.startswith(HERE)


def interrupt() -> None:
    raise Interrupt


class Injector:
    """Runs ``handler`` at the point number ``at`` of what is called within ``with``, counted from 0; -1: never.

    Afterwards ``passed`` is the number of points that were passed, and ``place`` says where the handler was run.
    """

    def __init__(self, at: int, handler: Handler = interrupt) -> None:
        self._at = at
        self._handler = handler
        self.passed = 0
        self.place = ""

    @property
    def fired(self) -> int:
        """How often the handler was run."""
        return int(self.place != "")

    def __enter__(self) -> Injector:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if is_ours(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.point(frame)
        return _Frame(self, frame).step

    def point(self, frame: FrameType) -> None:
        number, self.passed = self.passed, self.passed + 1
        if number == self._at:
            self.place = f"{frame.f_code.co_qualname} of {frame.f_code.co_filename}, line {frame.f_lineno}"
            self._handler()


class _Frame:
    """Follows one frame from instruction to instruction."""

    def __init__(self, injector: Injector, frame: FrameType) -> None:
        self._injector = injector
        self._names = _instructions(frame.f_code)
        self._behind_call = False

    def step(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "opcode":
            name = self._names.get(frame.f_lasti, "")
            behind_call, self._behind_call = self._behind_call, name.startswith(CALLS)
            if behind_call or name.startswith(JUMPS_BACK):
                self._injector.point(frame)
        return self.step


_known: dict[CodeType, dict[int, str]] = {}


def _instructions(code: CodeType) -> dict[int, str]:
    names = _known.get(code)
    if names is None:
        names = _known[code] = {step.offset: step.opname for step in dis.get_instructions(code)}
    return names
