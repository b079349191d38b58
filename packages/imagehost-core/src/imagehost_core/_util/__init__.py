"""Helpers without business rules: clock, LRU cache, single flight, field parsing."""
