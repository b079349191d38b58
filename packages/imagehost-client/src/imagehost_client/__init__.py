"""imagehost."""
