"""The parts of the command line: its arguments, what its commands do, and what they show."""
