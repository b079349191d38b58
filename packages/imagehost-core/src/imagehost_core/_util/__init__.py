"""Small helpers without rules of their own: clock, LRU cache, single flight, field parsing."""
