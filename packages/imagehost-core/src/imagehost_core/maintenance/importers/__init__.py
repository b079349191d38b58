"""Imports: images from directories, and from the data of other image hosts."""
