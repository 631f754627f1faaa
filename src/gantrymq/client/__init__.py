"""Producers and consumers. The asyncio classes are the implementation; ``sync`` gives the same names, blocking."""
