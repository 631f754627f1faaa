"""A consumer gives a popped message up. Every door asks here, so that nobody makes two steps of it."""

from __future__ import annotations

from gantrymq.broker.client import Client
from gantrymq.broker.operations.send_back import SendBacks
from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.dead_letters import DeadLetters
from gantrymq.broker.pop.values import AckDone, PopDelivery


class GivingUp:
    """The message becomes a dead letter of the group, and its delivery ends, in one write."""

    def __init__(self, back: SendBacks, letters: DeadLetters, acks: PopAcks) -> None:
        self._back = back
        self._letters = letters
        self._acks = acks

    def give_up(self, client: Client, delivery: PopDelivery, done: AckDone) -> bool:
        """True when that is done, also because it was before; False: ``done`` is called when it is, or has failed.
        Raises Refused."""
        letter = self._back.dead_letter(client, delivery.group, self._letters.log_offset_of(delivery))
        if letter is None:  # the group keeps none
            return self._acks.ack(delivery, done)
        return not self._letters.put(delivery, letter, done)

    def log_offset_of(self, delivery: PopDelivery) -> int:
        """Where the message lies. Raises Refused when it is not there (any more)."""
        return self._letters.log_offset_of(delivery)
