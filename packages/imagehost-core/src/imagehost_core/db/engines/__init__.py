"""Engines of the database: one protocol, and SQLite."""
