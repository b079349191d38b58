"""Helpers that the JSON API routes share."""
