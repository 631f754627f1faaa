"""How large things may be: every limit that depends on another one. ``tests/message/test_sizes.py`` says how they do.

All are in bytes, where nothing else is said. What clients may take of a server (connections, bytes in flight, requests)
is in ``runtime/limits``; how much is read or written in one go stands where it is done.
"""

from __future__ import annotations

from typing import Final

# Parts of a message.

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""Of the body of a message: default of ``maxMessageSize`` on brokers and clients."""
MAX_PROPERTIES_BYTES: Final = 32_767
"""Of the properties' text: their length is a signed 16-bit number in a record."""
MAX_TOPIC_CHARACTERS: Final = 127
"""Of the name of a topic. Source: TopicValidator."""
TOPIC_V1_MAX_BYTES: Final = 127
"""A longer topic, such as that of a retry topic, needs a record of version 2. Source: MessageVersion."""
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""Of a body after decompression: a small body must not become one that fills the memory."""

# What a broker adds to the properties of a message that it keeps for later.

HALF_HEADROOM_BYTES: Final = 1024
"""Free bytes that the properties of a half message keep for what parking or resuming it adds later (X2)."""
TIMER_HEADROOM_BYTES: Final = 128
"""Free bytes that the properties of a timer message keep for what is added when it is rolled and delivered."""

# Records of the log.

LARGEST_RECORD_BYTES: Final = 64 * 1024 * 1024
"""Of a record of the log; a size field above this is garbage."""
SMALLEST_RECORD_BYTES: Final = 91
"""Of a record without body, topic and properties."""

# Frames, requests and answers.

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""Of a frame that is accepted or sent, as in every RocketMQ peer (``frameMaxLength``)."""
FRAME_ROOM_BYTES: Final = 128 * 1024
"""Of a frame, what is left for header and properties beside the largest body."""
LARGEST_BODY_BYTES: Final = MAX_FRAME_BYTES - FRAME_ROOM_BYTES
"""Of the body of a message, whatever ``maxMessageSize`` is: it has to fit into a frame."""
MAX_REQUEST_BODY_BYTES: Final = 4 * 1024 * 1024
"""Of the largest JSON body that a server reads, except from a broker that registers its topics."""
MAX_BATCH_MESSAGES: Final = 32_768
"""Messages of a batch that a server takes: it stores them in one turn of its loop, at some 10 us for each."""
PULL_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Of the records in the answer to a pull, whatever the client asks for: one slow reader must not hold much memory. A
single larger record is given all the same."""
QUERY_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Of the messages found by a key. A single larger one is given all the same."""
LARGEST_READ_BODY_BYTES: Final = 16 * 1024 * 1024
"""More than our producers can be set to send: what a few compressed bytes grow to is bounded."""
