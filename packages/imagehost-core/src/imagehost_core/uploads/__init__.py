"""Upload options and filenames: parsing and validation."""
