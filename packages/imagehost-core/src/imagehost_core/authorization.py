"""Authorization: what an operation requires of a token, and accounts as tokens act for them."""

from __future__ import annotations

from enum import Enum

import attrs
from attrs import field, frozen

from imagehost_core.errors import ForbiddenError
from imagehost_core.models import Account, Principal, Role, Scope


class SessionRequirement(Enum):
    """The requirement of a session token; a key is not sufficient, whatever its scopes."""

    ONLY = "session"
    OPERATOR = "operator"
    """The session of an operator."""


Requirement = Scope | SessionRequirement
"""What an operation requires of a token."""


@frozen(kw_only=True)
class AuthorizedAccount(Account):
    """An account as a token acts for it in one operation; `authorize` returns it.

    As the owner of a change, it has the token verified again in the transaction of the change: a token that
    was revoked, has expired or was narrowed since has no effect any more.

    Attributes:
        principal: The principal of the token.
        requirements: What the operation requires.
    """

    principal: Principal = field(repr=False)
    requirements: tuple[Requirement, ...] = field(repr=False)


def authorize(principal: Principal, *requirements: Requirement) -> AuthorizedAccount:
    """Return the account of a principal as the owner of an operation.

    Args:
        principal: The principal of the token.
        requirements: What the operation requires.

    Raises:
        ForbiddenError: The principal does not meet a requirement.
    """
    for requirement in requirements:
        require_permission(principal, requirement)
    values = attrs.asdict(principal.account, recurse=False)
    return AuthorizedAccount(principal=principal, requirements=requirements, **values)


def require_permission(principal: Principal, requirement: Requirement) -> None:
    """Raise ForbiddenError unless a principal meets a requirement.

    Raises:
        ForbiddenError: The scope is missing, the token is a key's where a session is required, or the account
            is no operator where one is required.
    """
    if isinstance(requirement, Scope):
        require_scope(principal, requirement)
    elif not principal.is_session:
        raise ForbiddenError("expected a session's token for this operation but received a key's")
    elif requirement is SessionRequirement.OPERATOR and principal.account.role is not Role.OPERATOR:
        raise ForbiddenError("expected an operator's session for this operation but received a user's")


def require_scope(principal: Principal, scope: Scope) -> None:
    """Raise ForbiddenError unless the principal's token has a scope.

    Raises:
        ForbiddenError: The token is valid but lacks the scope.
    """
    if scope not in principal.scopes:
        granted = ", ".join(sorted(principal.scopes)) or "none"
        raise ForbiddenError(
            f"expected the scope {scope} for this operation but received a token with {granted}"
        )
