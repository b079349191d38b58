"""Engines of the database: SQLite and PostgreSQL behind one protocol."""
