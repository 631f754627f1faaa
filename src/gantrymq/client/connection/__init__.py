"""The connection of one client to a cluster: routes, heartbeats, threads."""
