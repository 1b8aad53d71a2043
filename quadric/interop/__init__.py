"""Doors to other libraries: their dictionaries read as ours, and ours written as theirs.

reading  folders of SAELens and sparsify, the paper's checkpoints, and plain tensors
"""
