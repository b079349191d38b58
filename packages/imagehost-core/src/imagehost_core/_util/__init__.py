"""Helpers without business rules: clock, LRU cache, field parsing, facts of the machine."""
