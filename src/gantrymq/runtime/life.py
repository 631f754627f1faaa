"""Something to keep a weak reference to, for objects that are compiled: mypyc's objects take none."""


class Life:
    """Belongs to one object, and ends with it."""
