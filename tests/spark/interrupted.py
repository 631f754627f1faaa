"""A Spark session after a test that was interrupted in the middle of a call: the next test finds it usable.

pytest's time limit, like Ctrl-C, raises in the middle of whatever the thread does. Within a call to Java, the question
is sent by then and its answer is not read; py4j would take it for the answer to the next question. One slow test would
fail every test behind it, and hide which one it was.
"""

from __future__ import annotations

import contextlib
from itertools import count
from typing import Any, Final


class JobGroups:
    """Names for the jobs of a session: those that are made before an interrupt, and those that are made behind it."""

    def __init__(self, session: Any) -> None:
        self._session: Final = session
        self._names = (f"tests {number}" for number in count())
        self._begin()

    def _begin(self) -> None:
        """From now on the jobs of this thread have a new name."""
        self._name = next(self._names)
        self._session._sc.setLocalProperty("spark.jobGroup.id", self._name)

    def make_usable(self) -> None:
        """Stop what the interrupted test left running or is about to start, over a new connection.

        Java goes on with an interrupted call. In a session that has done little before, it is still making its plan by
        then. A job that began behind the cancelling would keep every place of the session.
        """
        context = self._session._sc
        connection = context._gateway._gateway_client.get_thread_connection()
        if connection is not None:
            connection.close()  # the next call opens another one
        with contextlib.suppress(Exception):
            for query in self._session.streams.active:
                query.stop()
            context._jsc.sc().cancelJobGroupAndFutureJobs(self._name)
            context.cancelAllJobs()
            self._begin()


JOB_GROUPS: list[JobGroups] = []
"""Those of the one session of the tests, while there is one."""
