"""Owners: accounts given as a record or by name."""

from __future__ import annotations

import re

from imagehost_core.db import AccountRepository
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.models import Account

Owner = Account | str
"""An account, or its name."""

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._@+-]{0,63}", re.ASCII)


def require_account_name(name: str) -> None:
    """Raise ValidationError unless `name` can be the name of an account.

    Raises:
        ValidationError: It is empty, longer than 64 characters, or has characters other than letters, digits
            and `._@+-`.
    """
    if _NAME.fullmatch(name) is None:
        expected = "1 to 64 letters, digits or ._@+-, beginning with a letter or digit,"
        raise ValidationError(errors=[FieldError("username", expected, quote_value(name))])


def get_account(accounts: AccountRepository, owner: Owner) -> Account:
    """Return the account of an owner.

    Raises:
        NotFoundError: There is no account of that name.
    """
    account = owner if isinstance(owner, Account) else accounts.get_by_name(owner)
    if account is None:
        raise NotFoundError(f"expected the name of an account but received {quote_value(owner)}")
    return account
