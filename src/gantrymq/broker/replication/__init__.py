"""A second machine: the log of a primary goes to its replicas, by RocketMQ's default HA protocol.

``frames.py`` has the bytes, ``sending.py`` and ``following.py`` the rules of both sides, ``port.py`` and ``replica.py``
their connections, ``copies.py`` when a record counts as copied, and ``tables.py`` what does not lie in the log. What a
former primary has alone goes to the files of ``surplus.py``; a replica that becomes primary does ``promotion.py``.
``watched.py`` tells tools and metrics how far all this is.
"""
