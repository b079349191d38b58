"""Caches on the disk: variants, and copies of files of an object store."""
