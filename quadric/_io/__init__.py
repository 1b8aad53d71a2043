"""Files, locks, tables and progress: what every room needs and none is about."""
