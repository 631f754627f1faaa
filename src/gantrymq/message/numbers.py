"""The integer types of headers: signed, of 32 or 64 bits. Decoding refuses a header with a number beyond its type.

Source: RemotingCommand.decodeCommandCustomHeader.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

Int: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's ``int``."""

Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Java's ``long``."""
