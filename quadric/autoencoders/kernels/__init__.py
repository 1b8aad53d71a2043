"""Fast exact forms of the loss and its gradients, each tested against the plain form in `autoencoders`.

gram       Gram matrix G of the atoms
kernel     kernel K = CGCᵀ of the latents
atoms      activations of all atoms
sparse_latents  latents by a sparse C
sums       error and density sums of a batch
symmetric  products whose result is known to be symmetric
csr        products with a sparse C
precision  which products may be rounded
"""
