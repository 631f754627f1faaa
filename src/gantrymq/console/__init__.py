"""The console: pages about a cluster in a browser, rendered by this process. ``app.application`` puts them together.

It asks the cluster by ``gantrymq.admin`` only, and has no rules of a broker of its own.
"""
