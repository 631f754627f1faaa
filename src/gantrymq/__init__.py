"""Transactional messaging for Python, wire- and disk-compatible with Apache RocketMQ."""

__version__ = "0.1.0"
