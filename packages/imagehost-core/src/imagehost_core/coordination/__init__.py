"""Coordination of the processes of one machine: locks, generations, counters and the disk reserve."""
