"""The OpenAPI document and its HTML page."""
