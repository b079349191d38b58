"""The process that listens: uvicorn runner and HTTP protocol."""
