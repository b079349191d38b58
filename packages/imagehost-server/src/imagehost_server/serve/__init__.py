"""The HTTP server: the connection protocol on uvicorn, and the server processes."""
