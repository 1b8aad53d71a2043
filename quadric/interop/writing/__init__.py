"""Exports: dictionaries, and what data says about their latents, in the formats of other tools.

folders      a folder that is complete or absent, and that replaces nothing but an earlier export of its kind
passes       the value of every latent on every token, read once more from the activations behind evidence
saelens      cfg.json and sae_weights.safetensors
saebench     the dictionary, and its place in the language model
neuronpedia  features, activations and explanations in batches of JSON lines
delphi       where each latent fires, and the tokens
"""
