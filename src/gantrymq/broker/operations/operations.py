"""Everything a broker does for those who come through one of its doors, together.

A door (``broker.door``) is built from this, and needs nothing else of a broker to speak its protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gantrymq.broker.delivery.pull import Pulls
from gantrymq.broker.operations.cleaning import Cleaning
from gantrymq.broker.operations.connections import Connections
from gantrymq.broker.operations.consumer_questions import ConsumerQuestions
from gantrymq.broker.operations.end_by_id import EndsById
from gantrymq.broker.operations.explaining import Explaining
from gantrymq.broker.operations.groups import GroupAdministration
from gantrymq.broker.operations.handover import Handovers
from gantrymq.broker.operations.members import Members
from gantrymq.broker.operations.positions import Positions
from gantrymq.broker.operations.progress import ProgressQuestions
from gantrymq.broker.operations.queries import Queries
from gantrymq.broker.operations.recall import Timers
from gantrymq.broker.operations.reply import Replies
from gantrymq.broker.operations.reset import Resets
from gantrymq.broker.operations.runtime_info import Figures
from gantrymq.broker.operations.send import Sends
from gantrymq.broker.operations.send_back import SendBacks
from gantrymq.broker.operations.send_batch import BatchSends
from gantrymq.broker.operations.send_halves import HalvesSends
from gantrymq.broker.operations.settings import SettingsAdministration
from gantrymq.broker.operations.summaries import Overviews
from gantrymq.broker.operations.table_changes import TableChanges
from gantrymq.broker.operations.table_copies import TableCopies
from gantrymq.broker.operations.topics import TopicAdministration
from gantrymq.broker.pop.assembly import Popping
from gantrymq.broker.pop.assignments import RouteSource
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.resume import ResumeOperation

if TYPE_CHECKING:
    from gantrymq.broker.users import Users


@dataclass(frozen=True, slots=True)
class Sending:
    """What producers, and consumers that give a message back, ask for."""

    one: Sends
    batches: BatchSends
    halves: HalvesSends
    back: SendBacks
    replies: Replies
    timers: Timers


@dataclass(frozen=True, slots=True)
class Consuming:
    """What consumers ask for."""

    pulls: Pulls
    popping: Popping
    positions: Positions
    queries: Queries


@dataclass(frozen=True, slots=True)
class Administration:
    """What operators and their tools ask for."""

    topics: TopicAdministration
    groups: GroupAdministration
    changes: TableChanges
    """Changes of both, those of one turn of the loop together."""
    progress: ProgressQuestions
    connections: Connections
    questions: ConsumerQuestions
    resets: Resets
    settings: SettingsAdministration
    cleaning: Cleaning
    figures: Figures
    resumes: ResumeOperation
    explaining: Explaining
    overviews: Overviews
    copies: TableCopies
    handovers: Handovers


@dataclass(frozen=True, slots=True)
class Operations:
    """What a broker does."""

    sending: Sending
    transactions: TransactionCoordinator
    ends_by_id: EndsById
    consuming: Consuming
    members: Members
    administration: Administration
    routes: RouteSource
    """The queues of all brokers, as the name servers know them."""
    users: Users | None
    """None: the broker has no users, and everybody may everything."""
