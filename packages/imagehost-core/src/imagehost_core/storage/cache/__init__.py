"""The cache of variants, and what caches on the disk have in common: eviction and sweeps."""
