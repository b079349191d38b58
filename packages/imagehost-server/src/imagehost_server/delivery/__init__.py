"""The image delivery route and its fast path."""
