"""Results of geometry for readers: terminal tables, a self-contained page, files for programs, heat maps."""
