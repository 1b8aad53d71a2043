"""What was found, for readers: of one run, of several compared, evaluations and explanations, as tables and files."""
