"""Questions to the cluster before Spark starts, which takes many seconds: does it answer, and is the topic there?"""

from __future__ import annotations

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.options.access import Access
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.patience import Patience
from gantrymq.spark.source.connections import OF_THIS_PROCESS
from gantrymq.spark.source.planning import FIRST_LOOK_TIMEOUT_MS, Planner


def check_topic(name_servers: str, topic: str) -> None:
    """Raises GantryError, which says what to do, when no name server answers within seconds or knows the topic."""
    Planner(SourceSettings(name_servers, topics=(topic,)), OF_THIS_PROCESS, SystemClock(), SystemRng()).queues()


def check_name_servers(name_servers: str) -> None:
    """Raises GantryError, which says what to do, when no name server answers within seconds."""
    lister = OF_THIS_PROCESS.lister(name_servers, Access())
    Patience(FIRST_LOOK_TIMEOUT_MS, SystemClock(), SystemRng()).call("looking up the topics", lister.topics)
