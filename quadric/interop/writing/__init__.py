"""Exports: dictionaries, and what data says about their latents, in the formats of other tools.

folders      a folder that is complete or absent, and that replaces nothing but an earlier export of its kind
saelens      cfg.json and sae_weights.safetensors
"""
