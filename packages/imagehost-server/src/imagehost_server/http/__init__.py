"""Parts of HTTP: bodies, multipart forms, conditional requests, responses, client IP addresses."""
