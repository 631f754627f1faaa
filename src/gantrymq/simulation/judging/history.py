"""What happened in a run, as a list of events: the input of the checker, and a file that people can read.

One JSON object a line, with ``at`` (milliseconds since the start) and ``event``:

=============  =========================================================================================
``begin``      ``tx``; ``immunity_ms``: nobody may ask about it earlier than so long after this moment, unless it is
               ``decisive`` and the process ``sender`` is gone (all optional)
``gone``       ``process``: it died
``half``       ``tx``; ``confirmed``: its half message was acknowledged to the producer
``row``        ``tx``; ``state`` ``committed`` or ``rolled back``: the local transaction ended for good
``end``        ``tx``, ``decision`` COMMIT, ROLLBACK or UNKNOWN; ``confirmed``: the broker acknowledged it; ``half``:
               which half message this is about, by a name of its own (optional)
``check``      ``tx``, ``answer``; ``lie``: on purpose not what the row says; ``half`` as above (optional)
``plain``      ``tx``; ``confirmed``: an ordinary message was acknowledged
``delivered``  ``tx``, ``broker``, ``topic``, ``queue``, ``offset``: a consumer got it from there
``flip``       ``tx``, ``record`` ``half``, ``op``, ``final`` or ``plain``: a bit of it turned over on the disk;
               ``covered``: a checksum says so
``cleaned``    ``tx``: the outcome row of its local transaction may have been deleted
``stuck``      ``tx``: its half message is still open at the end
``group``      ``group``, ``topic``, ``orderly``: a consumer group that wants all messages of the topic from here on;
               ``retries``: what fails comes again from another topic, so that its progress passes by it (optional)
``sent``       ``message``, ``topic``; ``confirmed``: it was acknowledged, with its place then: ``broker``, ``queue``,
               ``offset`` (optional)
``progress``   ``group``, ``broker``, ``topic``, ``queue``, ``offset``: a broker was told that everything below is
               consumed (optional)
``received``   ``message``, ``group``, ``member``: a member was handed it (optional)
``processed``  ``message``, ``group``, ``member``, ``broker``, ``topic``, ``queue``, ``offset``: its program has
               done with it; the place is the one it was handed out from
``waits``      ``wait``, ``kind``, ``ms``, ``host``: something waits so long in a process of that host; it may be late
               by ``slack_ms``; ``exact``: it may not be early; ``kept``: a stop of the process does not end it
``over``       ``wait``: it is over
``clock``      ``host``, ``skew_ms``: its wall clock was set, and is wrong by so much now
``stopped``    ``host``: its process ends; ``started``: it serves
``fault``      ``what``: something was broken on purpose
``quiet``      everything works again, and all that was going to happen has happened
=============  =========================================================================================

Who can write such a file can have any cluster checked, also an Apache one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Event = dict[str, Any]


class History:
    """Events in the order in which they happened."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.events: list[Event] = []

    def add(self, event: str, **fields: Any) -> None:
        self.events.append({"at": self._now_ms(), "event": event, **fields})


def encode(events: Iterable[Event]) -> str:
    """As lines of JSON."""
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


def decode(text: str) -> list[Event]:
    """Lines of JSON. Raises ValueError naming the line that is no event."""
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number} is no JSON: {error}") from error
        if not isinstance(event, dict) or "event" not in event:
            raise ValueError(f'line {number} is no event: it needs "event"')
        events.append(event)
    return events
