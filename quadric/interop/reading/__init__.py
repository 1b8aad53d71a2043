"""Dictionaries that were trained elsewhere, read as dictionaries of Quadric.

layouts    which library wrote a folder, and the reader for it
saelens    cfg.json and sae_weights.safetensors
sparsify   cfg.json and sae.safetensors
published  the paper's checkpoints, config.json and model.safetensors
tensors    a linear dictionary from an encoder and a decoder
weights    reading and checking the tensors of a file
places     names of hook points in other libraries
"""

from quadric.interop.reading.layouts import check_complete, dictionary_folders, is_dictionary, read_dictionary
from quadric.interop.reading.tensors import linear_dictionary

__all__ = ["check_complete", "dictionary_folders", "is_dictionary", "linear_dictionary", "read_dictionary"]
