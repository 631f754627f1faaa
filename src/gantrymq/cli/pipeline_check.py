"""A question to the cluster before Spark starts, which takes many seconds: is the topic there?"""

from __future__ import annotations

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.connections import OF_THIS_PROCESS
from gantrymq.spark.options import Settings
from gantrymq.spark.planning import Planner


def check_topic(name_servers: str, topic: str) -> None:
    """Raises GantryError, which says what to do, when no name server answers within seconds or knows the topic."""
    Planner(Settings(name_servers, topics=(topic,)), OF_THIS_PROCESS, SystemClock(), SystemRng()).queues()
