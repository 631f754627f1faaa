"""A broker, a name server and their clients in one process without sockets, for users' own tests."""
