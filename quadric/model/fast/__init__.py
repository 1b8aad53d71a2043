"""Fast exact forms of the loss and its gradients, each tested against the plain form in `autoencoders`.

kernel    Gram matrix G of the atoms and kernel K = CGCᵀ of the latents, for dense and sparse C
latents   activations of atoms, latents for sparse C, and the error and density sums of a batch
shared    one process's part of G and K, and products that several processes compute together
blocked   zᵀKz when G does not fit in memory
products  the matrix products that these are built from: symmetric, rounded, sparse

One file per quantity rather than per trick, so that a training step can be read in a few files.
"""
