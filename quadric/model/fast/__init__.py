"""Fast exact forms of what `PlainStep` computes, each tested against it, values and gradients.

step      which way a dictionary of a size computes its error, and everything else that terms ask for
errors    errors of given latents, for evaluation
storage   latents and kernels for every storage of C
kernel    Gram matrix G of the atoms and kernel K = CGCᵀ of the latents, for dense and sparse C
latents   activations of atoms, latents for sparse C, errors and norms of a batch
shared    one process's part of G and K, and products that several processes compute together
blocked   zᵀKz when G does not fit in memory
lifted    zᵀKz in the product space, for sparse C
sampled   the overlap of sampled latents, when K does not fit in memory

One file per quantity rather than per trick, so that a training step can be read in a few files. Without this folder
everything still trains, on plain paths.
"""
