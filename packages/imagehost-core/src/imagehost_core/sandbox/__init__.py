"""The sandbox of image worker processes: resource limits, seccomp and Landlock."""
