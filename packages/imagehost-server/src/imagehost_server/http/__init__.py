"""HTTP itself: bodies, multipart forms, conditional requests, responses, client addresses."""
