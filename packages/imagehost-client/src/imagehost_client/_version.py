"""The package's version, apart, so that nothing else is imported to learn it."""

__version__ = "0.1.0"
