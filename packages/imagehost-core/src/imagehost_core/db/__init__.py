"""The database: accounts, albums, images and events, in SQLite or PostgreSQL."""
