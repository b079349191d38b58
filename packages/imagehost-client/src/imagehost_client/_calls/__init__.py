"""The operations of the API: one pure function for each endpoint, which returns a `Call`.

Both clients derive their methods from these functions (`_methods`), with parameters and docstrings.
Arguments are validated here, before a request is sent.
"""
