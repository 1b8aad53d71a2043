"""What geometry found, made readable: terminal tables, a self-contained page, files for programs, heat maps."""
