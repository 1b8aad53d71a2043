"""Fast exact forms of what `PlainStep` computes, each tested against it, values and gradients.

step      which way a dictionary of a size computes its error, and everything else that terms ask for
sparse    C stored by its entries
kernel    Gram matrix G of the atoms and kernel K = CGCᵀ of the latents, for dense and sparse C
latents   activations of atoms, latents for sparse C, errors and norms of a batch
shared    one process's part of G and K, and products that several processes compute together
large     zᵀKz from blocks of G, and the overlap of sampled latents, when G and K do not fit in memory
lifted    zᵀKz in the product space, for sparse C
newton_schulz  Muon's rounds on small Gram matrices, and on the entries of a sparse matrix
products  symmetric, rounded and sparse matrix products that these are built from

One file per quantity rather than per trick, so that a training step can be read in a few files. Without this folder
everything still trains, on plain paths.
"""
