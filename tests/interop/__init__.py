"""Against the real thing: official Java clients, tools and servers, in child processes, over real sockets and files."""
