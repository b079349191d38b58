"""Configuration files with which other programs upload images: pure functions of a URL and a token."""

from imagehost_server.integrations.catalogue import INTEGRATIONS, Integration
from imagehost_server.integrations.target import TOKEN_PLACEHOLDER, UploadTarget

__all__ = ["INTEGRATIONS", "TOKEN_PLACEHOLDER", "Integration", "UploadTarget"]
