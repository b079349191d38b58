"""The integrity check of a data directory, and the repair of what it finds."""
