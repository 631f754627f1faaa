"""The remoting door: RocketMQ's requests translated to operations, and their results to answers."""
