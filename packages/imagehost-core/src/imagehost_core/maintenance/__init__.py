"""Work that no request waits for: check, garbage collection, backups, restores and imports."""
