"""The header scan: format, size, frames and metadata of an image file, read before any decoder runs."""
