"""HTTP/2 as a server speaks it: bytes in, calls of a ``Peer`` out, and bytes to send. Pure: no I/O, and time is an
argument.

Source: RFC 9113 (frames, streams, flow control) and RFC 7541 (headers).
"""
