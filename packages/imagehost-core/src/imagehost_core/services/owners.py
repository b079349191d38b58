"""Owners: accounts given as a record or by name."""

from __future__ import annotations

import re

from imagehost_core.db import AccountRepository
from imagehost_core.errors import FieldError, NotFoundError, quote_value
from imagehost_core.models import Account

Owner = Account | str
"""An account, or its name."""

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._@+-]{0,63}", re.ASCII)


def account_name_errors(name: str) -> tuple[FieldError, ...]:
    """Return an error unless `name` can be the name of an account.

    A name has 1 to 64 ASCII letters, digits and characters of `._@+-`; names that differ in their case only
    are one.
    """
    if _NAME.fullmatch(name) is not None:
        return ()
    expected = "1 to 64 letters, digits or ._@+-, beginning with a letter or digit,"
    return (FieldError("username", expected, quote_value(name)),)


def get_account(accounts: AccountRepository, owner: Owner) -> Account:
    """Return the account of an owner.

    Raises:
        NotFoundError: There is no account of that name.
    """
    account = owner if isinstance(owner, Account) else accounts.get_by_name(owner)
    if account is None:
        raise NotFoundError(f"expected the name of an account but received {quote_value(owner)}")
    return account
