"""RocketMQ's gRPC protocol, version 2: its messages, and a server that carries them.

``proto/`` has Apache's files unchanged, with their licence. ``python -m tools.grpc_code`` makes ``messages.binpb`` and
the type stubs from them.
"""
