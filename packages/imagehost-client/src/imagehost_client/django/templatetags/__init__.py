"""The template tags and filters of Django."""
