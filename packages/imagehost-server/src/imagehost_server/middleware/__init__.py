"""ASGI middleware: what holds for every request."""
