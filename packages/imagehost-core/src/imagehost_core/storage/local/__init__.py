"""Blob stores in a directory and in memory."""
