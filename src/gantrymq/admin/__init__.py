"""Questions and commands about a cluster, for tools: topics here, the rest by area.

``Admin`` is the entry; its areas (``admin.groups``, ``admin.messages``, ...) are loaded when they are first used.
"""

from gantrymq.admin.admin import DEFAULT_QUEUES as DEFAULT_QUEUES
from gantrymq.admin.admin import READ_WRITE as READ_WRITE
from gantrymq.admin.admin import Admin as Admin
from gantrymq.admin.admin import QueueStats as QueueStats
from gantrymq.admin.topic_changes import MessagesHidden as MessagesHidden
