"""Language model + hook points -> stream of token vectors (n, d)."""
