"""Calls of gRPC over HTTP/2: from the bytes of a connection to the methods of a service, and back.

Source: gRPC over HTTP2 (the protocol's description).
"""
