"""Users and permissions of our own servers: who sent a request, and whether that user may have it.

Values and rules are in ``values`` and ``judge``, what each request needs in ``requests``, the one place that decides
about a request in ``guard``. A server without users never loads this package's guard, and its requests go straight to
their handlers.
"""
