"""What weights say, for readers: one run, several compared, as tables in a terminal, as files and as heat maps."""
