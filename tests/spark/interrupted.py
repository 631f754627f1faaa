"""A Spark session after a test that was interrupted in the middle of a call: the next test finds it usable.

pytest's time limit, like Ctrl-C, raises in the middle of whatever the thread does. Within a call to Java, the question
is sent by then and its answer is not read; py4j would take it for the answer to the next question. One slow test would
fail every test behind it, and hide which one it was.
"""

from __future__ import annotations

import contextlib
from typing import Any


def make_usable(session: Any) -> None:
    """Stop what the interrupted test left running, over a new connection."""
    client = session._sc._gateway._gateway_client
    connection = client.get_thread_connection()
    if connection is not None:
        connection.close()  # the next call opens another one
    with contextlib.suppress(Exception):
        for query in session.streams.active:
            query.stop()
        session._sc.cancelAllJobs()
