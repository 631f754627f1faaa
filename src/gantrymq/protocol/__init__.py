"""RocketMQ's wire protocol and record format: encodes values to bytes and decodes them, without I/O."""
