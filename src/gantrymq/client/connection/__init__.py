"""The connection of one client to a cluster: routes, heartbeats, and the thread of the blocking clients."""
