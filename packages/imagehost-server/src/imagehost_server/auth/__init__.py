"""Authentication: tokens, cookies, passwords, scopes and the identity of a request."""
