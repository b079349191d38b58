"""The command line `imagehost`."""
