"""Whose something is: how an owner is named by the programs that embed the core."""

from __future__ import annotations

import re

from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.models import Account
from imagehost_core.services.context import HostContext

Owner = Account | str
"""An account, or the name of one. A name that nobody has is given an account when something is first made
under it: the program that embeds the core knows its users, and has no other place to register them."""

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._@+-]{0,63}", re.ASCII)


def require_account_name(name: str) -> None:
    """Let the name of an account pass.

    Raises:
        ValidationError: It is empty, too long, or has other characters than letters, digits and `._@+-`.
    """
    if _NAME.fullmatch(name) is None:
        expected = "1 to 64 letters, digits or ._@+-, beginning with a letter or digit,"
        raise ValidationError(errors=[FieldError("username", expected, quote_value(name))])


def get_account(context: HostContext, owner: Owner) -> Account:
    """Return the account of an owner.

    Raises:
        NotFoundError: There is none.
    """
    account = find_account(context, owner)
    if account is None:
        raise NotFoundError(f"expected the name of an account but received {quote_value(owner)}")
    return account


def find_account(context: HostContext, owner: Owner) -> Account | None:
    """Return the account of an owner, or `None`: who has nothing yet, has an empty list."""
    return owner if isinstance(owner, Account) else context.accounts.get_by_name(owner)


def get_or_create_account(context: HostContext, owner: Owner) -> Account:
    """Return the account of an owner, made now if it is a name that nobody has.

    Raises:
        ValidationError: The name cannot be an account's.
    """
    if isinstance(owner, Account):
        return owner
    account = context.accounts.get_by_name(owner)
    if account is None:
        require_account_name(owner)
        with context.database.transaction() as transaction:
            if context.accounts.get_by_name(owner, transaction) is None:
                context.accounts.insert(transaction, owner, None, context.clock())
        account = get_account(context, owner)
    return account


def is_owner(context: HostContext, owner: Owner | None, account_id: int | None) -> bool:
    """Whether something of an account may be shown to an owner; `None` is the program itself."""
    if owner is None:
        return True
    account = find_account(context, owner)
    return account is not None and account.id == account_id
