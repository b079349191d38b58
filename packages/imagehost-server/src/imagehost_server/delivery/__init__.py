"""The delivery route, which serves images, and its fast path."""
