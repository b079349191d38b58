"""Lists in the database: pages, the gallery, and searches by words."""
