"""Hosts that share a PostgreSQL database or an object store; one host with its own disk never imports it."""
