"""TLS over any ``Network``: settings, certificates, one connection, and the network that makes such connections."""
