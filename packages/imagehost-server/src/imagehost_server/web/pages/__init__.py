"""The handlers of the pages, one module each."""
