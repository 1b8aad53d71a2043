"""Doors to other libraries: their dictionaries read as ours, and ours written as theirs.

Reading, without data or a language model:

reading         which library wrote a folder, and the dictionary in it: SAELens, sparsify, the paper's checkpoints
tensors         reading and checking the tensors of a file; a linear dictionary from an encoder and a decoder

Writing, for `quadric.export`:

saelens_format  cfg.json and sae_weights.safetensors, read and written
saebench        a module with the interface that SAEBench asks of custom SAEs, and its folder; it needs torch alone
neuronpedia     features, activations and explanations in batches of JSON lines
delphi          where each latent fires, and the tokens
passes          the value of every latent on every token, read once more from the activations behind evidence
export_folder   a folder that is complete or absent, and that replaces nothing but an earlier export of its kind

saelens         a class for SAELens 6; importing it imports sae_lens and registers the architecture "quadric"
carried         what a reconstruction needs of its token beside the latents: its length, without a lens its direction
hook_names      hook points as other libraries spell them
"""
