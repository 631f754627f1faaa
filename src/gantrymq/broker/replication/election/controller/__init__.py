"""Apache's controller elects the primary of a group in which Apache's brokers may be, too.

``calls.py`` asks it, ``records.py`` makes its answers a record of the group, ``identity.py`` gets this broker its
number there, and ``heartbeats.py`` says that this broker lives. ``membership.py`` puts them together.
``replication/epochs.py`` has where each epoch began in the log, which Apache's brokers compare. What such a group
guarantees is in docs/election.md.
"""
