"""RocketMQ's remoting protocol over network connections: a server, a client, and the channel of one connection."""
