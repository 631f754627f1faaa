"""``python -m benchmarks consistency``: a paid order must reach three other services; four ways to do it, measured.

The order service, logistics, points and cart have a PostgreSQL database each. Everything is a real process: the server
of PostgreSQL, our broker, the order service with its client threads, the relay of the outbox, and a consumer for each
of the three other services.
"""
