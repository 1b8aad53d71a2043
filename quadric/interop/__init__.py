"""Doors to other libraries: their dictionaries read as ours, and ours written as theirs.

reading    folders of SAELens and sparsify, the paper's checkpoints, and plain tensors
writing    `quadric.export`: one file per target
saelens    a class for SAELens 6; importing it imports sae_lens and registers the architecture "quadric"
saebench   a module with the interface that SAEBench asks of custom SAEs; it needs torch alone
carried    what a reconstruction needs of its token beside the latents: its length, and without a lens its direction
hook_names hook points as other libraries spell them
"""
