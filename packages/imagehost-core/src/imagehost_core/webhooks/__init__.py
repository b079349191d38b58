"""Webhook rules: endpoint URLs, fields, signatures and the retry schedule."""
