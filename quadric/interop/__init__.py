"""Doors to the tools that researchers already use: SAELens, SAEBench, Neuronpedia and delphi.

carried    what a reconstruction needs of its token beside the latents: its length, and without a lens its direction
hook_names hook points as TransformerLens spells them
saelens    an SAE class for SAELens 6; importing it imports sae_lens and registers the architecture "quadric"
saebench   a module with the interface that SAEBench asks of custom SAEs; it needs torch alone
writing    `quadric.export`: one file per target
"""
