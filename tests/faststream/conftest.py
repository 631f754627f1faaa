"""The cases of ``generic`` run beside FastStream's own tests, by ``python -m tests.faststream.generic``."""

collect_ignore = ["generic/cases"]
