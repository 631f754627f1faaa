"""How much there may be of users and policies: each change writes all of them, and each request looks through those of
its user. A file that has more already is read all the same."""

from __future__ import annotations

from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.protocol.bodies.access import AclBody

USERS_MAX: Final = 5_000
SECRET_MAX: Final = 1_024
"""Characters of a secret."""
POLICIES_MAX: Final = 1_000
"""Of one user, and of one request."""
ALL_POLICIES_MAX: Final = 10_000
"""Of all users together."""
SOURCES_MAX: Final = 100
"""Addresses of one policy."""
RESOURCE_MAX: Final = 300
"""Characters of a resource, of an action and of an address: topics have 127, groups 255."""


def check_sizes(body: AclBody) -> None:
    """Raises ConfigError for more policies than are read."""
    entries = [entry for policy in body.policies for entry in policy.entries]
    if len(entries) > POLICIES_MAX:
        raise ConfigError(
            f"the request has {len(entries)} policies; at most {POLICIES_MAX} are read: use prefixes such as Topic:a-*"
        )
    for entry in entries:
        sources = entry.source_ips or []
        if len(sources) > SOURCES_MAX:
            raise ConfigError(
                f"a policy has {len(sources)} addresses; at most {SOURCES_MAX} are possible: write ranges such as "
                "10.0.0.0/8"
            )
        if len(entry.actions) > SOURCES_MAX or any(
            len(text) > RESOURCE_MAX for text in (entry.resource, entry.decision, *entry.actions, *sources)
        ):
            raise ConfigError(f"a policy has texts of more than {RESOURCE_MAX} characters, or too many actions")
