"""The shape of every latent, from weights alone."""
