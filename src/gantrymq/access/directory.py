"""All users of a server with their policies, and the rules for changing them.

A change is made in a copy, written to the disk, and only then used. Source: AuthenticationMetadataManagerImpl,
AuthorizationMetadataManagerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gantrymq.access.limits import ALL_POLICIES_MAX, POLICIES_MAX, SECRET_MAX, USERS_MAX
from gantrymq.access.values import NO_GRANTS, Grants, Policy, Resource, User, UserKind
from gantrymq.errors import GantryError

NAME_MAX: Final = 128
"""Characters of a user's name."""


class ChangeRefused(GantryError):
    """A user or policy cannot be changed like this; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Content:
    """Users and grants at one moment, by the name of the user."""

    users: Mapping[str, User] = field(default_factory=dict)
    grants: Mapping[str, Grants] = field(default_factory=dict)


class Directory:
    """The users and policies that count now.

    ``save``: makes a new content durable before it counts; it may raise StoreError. ``changed``: called afterwards.
    """

    def __init__(self, content: Content, save: Callable[[Content], None]) -> None:
        self._content = content
        self._save = save
        self.changed: Final[list[Callable[[], None]]] = []

    @property
    def content(self) -> Content:
        """Everything, at this moment."""
        return self._content

    def take(self, content: Content) -> None:
        """Have the users and policies of another server, from now on; durable when this returns. Raises StoreError."""
        if content != self._content:
            self._commit(content)

    def user(self, name: str) -> User | None:
        return self._content.users.get(name)

    def grants(self, name: str) -> Grants:
        """What policies say about a user; empty for one who has none."""
        return self._content.grants.get(name, NO_GRANTS)

    def users(self, part: str = "") -> list[User]:
        """All users whose names contain ``part``, by name."""
        return [user for name, user in sorted(self._content.users.items()) if part in name]

    def subjects(self, part: str = "") -> list[tuple[str, Grants]]:
        """Users that have policies, with them, by name."""
        return [(name, grants) for name, grants in sorted(self._content.grants.items()) if part in name]

    def replace(self, content: Content) -> None:
        """Use another content, which is on the disk already."""
        self._content = content
        for tell in self.changed:
            tell()

    # Users. ``by``: who wants the change; None: nobody had to say so.

    def create(self, user: User, by: User | None) -> None:
        """Raises ChangeRefused."""
        check_name(user.name)
        if not user.secret.strip():
            raise ChangeRefused(f"the user {user.name!r} has no password; give one")
        check_secret(user.secret)
        if len(self._content.users) >= USERS_MAX:
            raise ChangeRefused(f"there are {USERS_MAX} users, and no more are possible; delete some")
        if user.name in self._content.users:
            raise ChangeRefused(f"the user {user.name!r} exists already; update it")
        self._only_super(user, by)
        self._put(user)

    def update(
        self, name: str, by: User | None, *, secret: str | None = None, kind: UserKind | None = None,
        enabled: bool | None = None,
    ) -> None:  # fmt: skip
        """Change what is not None. Raises ChangeRefused."""
        old = self._known(name)
        check_secret(secret or "")
        new = replace(
            old,
            secret=secret if secret and secret.strip() else old.secret,
            kind=old.kind if kind is None else kind,
            enabled=old.enabled if enabled is None else enabled,
        )
        self._only_super(old, by)
        self._only_super(new, by)
        self._keep_one_super(old, new)
        self._put(new)

    def delete(self, name: str, by: User | None) -> None:
        """Delete a user with its policies; harmless when there is none. Raises ChangeRefused."""
        old = self._content.users.get(name)
        if old is None:
            return
        self._only_super(old, by)
        self._keep_one_super(old, None)
        users, grants = dict(self._content.users), dict(self._content.grants)
        del users[name]
        grants.pop(name, None)
        self._commit(Content(users, grants))

    # Policies.

    def grant(self, name: str, custom: Sequence[Policy], default: Sequence[Policy] = ()) -> None:
        """Add policies to those of a user; one for the same resource takes the place of the old one. Raises
        ChangeRefused."""
        self._known(name)
        if not custom and not default:
            raise ChangeRefused(f"there are no policies to give to {name!r}; name resources, actions and a decision")
        old = self.grants(name)
        new = Grants(_merged(old.custom, custom), _merged(old.default, default))
        others = sum(count_of(grants) for other, grants in self._content.grants.items() if other != name)
        if count_of(new) > max(POLICIES_MAX, count_of(old)) or others + count_of(new) > ALL_POLICIES_MAX:
            raise ChangeRefused(
                f"{name!r} would have {count_of(new)} policies, and all users {others + count_of(new)}; at most "
                f"{POLICIES_MAX} and {ALL_POLICIES_MAX} are possible: use prefixes such as Topic:a-*"
            )
        self._put_grants(name, new)

    def revoke(self, name: str, resource: Resource | None = None, *, default: bool = False) -> None:
        """Take a policy away, or all of them. Raises ChangeRefused when the user has none."""
        self._known(name)
        old = self.grants(name)
        if not old:
            raise ChangeRefused(f"the user {name!r} has no policies")
        if resource is None:
            self._put_grants(name, NO_GRANTS)
        elif default:
            self._put_grants(name, replace(old, default=_without(old.default, resource)))
        else:
            self._put_grants(name, replace(old, custom=_without(old.custom, resource)))

    # Inside.

    def _known(self, name: str) -> User:
        user = self._content.users.get(name)
        if user is None:
            raise ChangeRefused(f"there is no user {name!r}; create it first")
        return user

    def _only_super(self, user: User, by: User | None) -> None:
        """Who could change a super user could become one."""
        if user.is_super and by is not None and not by.is_super:
            raise ChangeRefused(f"{user.name!r} is a super user: only a super user can make, change or delete one")

    def _keep_one_super(self, old: User, new: User | None) -> None:
        """Without a super user nobody could ever change anything again."""
        rules = new is not None and new.is_super and new.enabled
        others = any(user.is_super and user.enabled for user in self._content.users.values() if user.name != old.name)
        if old.is_super and old.enabled and not rules and not others:
            raise ChangeRefused(f"{old.name!r} is the only super user that is enabled; make another one first")

    def _put(self, user: User) -> None:
        self._commit(Content({**self._content.users, user.name: user}, self._content.grants))

    def _put_grants(self, name: str, grants: Grants) -> None:
        others = {other: value for other, value in self._content.grants.items() if other != name}
        self._commit(Content(self._content.users, {**others, name: grants} if grants else others))

    def _commit(self, content: Content) -> None:
        self._save(content)
        self.replace(content)


def check_name(name: str) -> None:
    """Raises ChangeRefused for a name that no user can have."""
    good = 0 < len(name) <= NAME_MAX and name.isprintable() and not any(sign in name for sign in " /:")
    if not good:
        raise ChangeRefused(
            f"the name is {name[:NAME_MAX]!r}; write 1 to {NAME_MAX} characters without blanks, / and :"
        )


def check_secret(secret: str) -> None:
    """Raises ChangeRefused for one that is too long."""
    if len(secret) > SECRET_MAX:
        raise ChangeRefused(f"the password has {len(secret)} characters; at most {SECRET_MAX} are possible")


def count_of(grants: Grants) -> int:
    return len(grants.custom) + len(grants.default)


def _merged(old: Iterable[Policy], new: Iterable[Policy]) -> tuple[Policy, ...]:
    by_resource = {policy.resource: policy for policy in old}
    for policy in new:
        by_resource[policy.resource] = policy
    return tuple(by_resource.values())


def _without(policies: Iterable[Policy], resource: Resource) -> tuple[Policy, ...]:
    return tuple(policy for policy in policies if policy.resource != resource)
