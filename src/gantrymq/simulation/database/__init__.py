"""A simulated database: tables with primary keys, transactions, row locks, crashes and lost connections.

| module       | content                                                                              |
|--------------|--------------------------------------------------------------------------------------|
| `locks`      | locks on rows, with waiting, time limits and the detection of deadlocks              |
| `tables`     | rows in versions, and transactions that see the versions which their isolation allows |
| `server`     | one server: sessions, durable commits, crash, failover to a read-only replica        |
| `connection` | the client's side: latency, lost connections, and the driver that gantrymq.sql uses  |
| `statements` | what the SQL statements of gantrymq.sql, and of the simulated services, do here      |

It behaves like PostgreSQL as far as gantrymq.sql depends on it. ``tests/simulation/database/test_database.py`` runs
the same tests against it and against real databases.
"""
