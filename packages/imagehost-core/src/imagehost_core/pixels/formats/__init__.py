"""The image formats: a module each, with what is done otherwise for its files."""
