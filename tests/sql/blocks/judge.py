"""What is right and wrong after a block. Pure: facts about each unit in, a verdict out.

| row   | message | and                                                            | verdict                       |
|-------|---------|----------------------------------------------------------------|-------------------------------|
| any   | two     |                                                                | DOUBLED                       |
| any   | open    | brokers still do not know how it ended                         | STUCK                         |
| there | there   | a check-back would not find the outcome                        | LOST_IF_KILLED                |
| there | there   | the block raised, and its own commit had not ended before.     | TORN: it said that it failed  |
|       |         | Not when the program cannot know what it committed itself      |                               |
|       |         | Not when the program's own ``session.commit()`` lost its       |                               |
|       |         | connection: then SQLAlchemy raises, whatever the server did    |                               |
| there | there   |                                                                | BOTH                          |
| none  | there   | the insert raised, and the program went on and ended normally  | HALVED                        |
| none  | there   |                                                                | PHANTOM                       |
| there | none    | ``send`` was not called, or raised, and the program went on    | HALVED                        |
|       |         | and ended normally                                             |                               |
| there | none    | the database had committed before, and the block raised an     | TOLD                          |
|       |         | error that says so; or the program itself had, and the block   |                               |
|       |         | raised any error                                               |                               |
| there | none    | the program had committed it, an error inside of the block     | TOLD                          |
|       |         | said so, and the program caught that error                     |                               |
| there | none    | an error said that there is no transaction, and that rows from | TOLD                          |
|       |         | before are committed: so nothing has rolled back a row whose   |                               |
|       |         | message was never taken                                        |                               |
| there | none    | in a block that is not ours, no message was ever given to us   | HALVED: nobody could tell     |
| there | none    | its table has no transactions                                  | LIMIT, see "Limits" in the    |
|       |         |                                                                | docs                          |
| there | none    |                                                                | LOST                          |
| none  | none    | the block raised, or the program undid the unit, or a warning  | NEITHER                       |
|       |         | says that its messages were dropped                            |                               |
| none  | none    |                                                                | SILENT: gone without a word   |

A message without a row (``row`` is None) is judged in the same way, as if its row had done what the message did.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Verdict(enum.Enum):
    BOTH = "row and message"
    NEITHER = "neither"
    HALVED = "the program itself left one out"
    TOLD = "committed before the end of the block, which raised"
    LIMIT = "a table without transactions"
    DOUBLED = "message delivered twice"
    STUCK = "message open for ever"
    LOST_IF_KILLED = "would be lost if the process died behind the commit"
    TORN = "the block raised, and has committed"
    PHANTOM = "message without its row"
    LOST = "row without its message"
    SILENT = "neither, and nobody said so"
    CRASHED = "an error from inside, which says nothing to its reader"


GOOD: Final = frozenset({Verdict.BOTH, Verdict.NEITHER, Verdict.HALVED, Verdict.TOLD, Verdict.LIMIT})


@dataclass(frozen=True, slots=True)
class Facts:
    """One unit after its block, seen from outside."""

    row: bool | None
    """Whether the row is in the database; None: the unit has none."""
    delivered: int
    inserted: bool
    """The insert did not raise."""
    sent: bool
    """``send`` was called, and did not raise."""
    undone: bool
    """The program itself rolled it back, or cannot know."""
    committed: str
    """What has committed it before the end of the block: ``own`` (a commit with its messages), ``behind`` (the
    database, implicitly), ``program`` (it executed COMMIT, or switched the driver to autocommit), or nothing."""
    raised: bool
    """The block (this attempt of it) ended with an error."""
    says_so: bool
    """That error says that the transaction was ended inside of the block."""
    warned: bool = False
    """A warning says that messages were dropped."""
    open: bool = False
    answerable: bool = True
    """A check-back finds the outcome row of a message that was delivered."""
    transactional: bool = True
    """Its table has transactions."""
    told: bool = False
    """An error inside of the block said that rows of it are committed. The program may have caught it."""
    none_of_ours: bool = False
    """No message was given to us before the block ended, and the block is not one of ours."""
    lost_commit: bool = False
    """The program's own commit lost its connection."""


def judge(facts: Facts) -> Verdict:
    """The verdict about one unit; those of GOOD are right."""
    if facts.delivered > 1:
        return Verdict.DOUBLED
    if facts.open:
        return Verdict.STUCK
    if facts.delivered:
        return _delivered(facts)
    if facts.row:
        return _row_alone(facts)
    gone = facts.raised or facts.undone or facts.warned or (not facts.sent and facts.row is None)
    return Verdict.NEITHER if gone else Verdict.SILENT


def _delivered(facts: Facts) -> Verdict:
    if facts.row is False:
        own = facts.committed == "own"
        return Verdict.PHANTOM if facts.inserted or (facts.raised and not own) else Verdict.HALVED
    in_doubt = facts.committed == "program" and facts.undone  # it caught an error, and committed all the same
    if facts.raised and facts.committed != "own" and not facts.lost_commit and not in_doubt:
        return Verdict.TORN
    return Verdict.BOTH if facts.answerable else Verdict.LOST_IF_KILLED


def _row_alone(facts: Facts) -> Verdict:
    if not facts.transactional:
        return Verdict.LIMIT
    if facts.none_of_ours or (not facts.sent and (not facts.raised or facts.committed == "own")):
        return Verdict.HALVED
    if facts.told and facts.committed in ("program", "behind"):
        return Verdict.TOLD
    if facts.raised and (facts.committed == "program" or (facts.committed == "behind" and facts.says_so)):
        return Verdict.TOLD
    return Verdict.LOST


_FROM_INSIDE: Final = frozenset({
    "AssertionError", "AttributeError", "TypeError", "KeyError", "IndexError", "NameError", "UnboundLocalError",
    "RuntimeError", "MissingGreenlet", "IllegalStateChangeError", "TimeoutError",
})  # fmt: skip


def is_crash(error: BaseException) -> bool:
    """Whether what a block raised is a defect, and not an answer."""
    return type(error).__name__ in _FROM_INSIDE
