"""RocketMQ's gRPC protocol, version 2: its messages (``pool``), and a server (``serving``) over HTTP/2 (``http2``).

``proto/`` has Apache's files unchanged, with their licence. ``python -m tools.grpc_code`` makes ``messages.binpb`` and
the type stubs from them.
"""
