"""A group of brokers of one name decides by itself which of them is primary.

One record says so, and it is changed by compare-and-set only, in a store that outlives the brokers (``record.py``,
``record_store.py``, ``etcd.py``). ``rules.py`` has what a broker does in which situation, as a table; ``leadership.py``
does it. ``in_sync.py`` says when a record of the log is in every member of the in-sync set, ``disk_identity.py``
whose disk is meant, and ``member.py`` puts it together for one broker.
"""
