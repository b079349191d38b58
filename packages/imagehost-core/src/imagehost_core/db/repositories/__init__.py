"""Repositories: the statements of each kind of record."""
