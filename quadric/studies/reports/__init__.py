"""Results of geometry for readers: tables in a terminal, files for programs, heat maps."""
