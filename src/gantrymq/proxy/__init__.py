"""``gantry proxy``: the gRPC door before a cluster, of GantryMQ or Apache brokers. It translates and keeps no state."""
