"""The paper's example geometries, as tests that can fail: cone, cluster, interpolation, subset.

cones           points along one ray from the centre
interpolations  a kind of token between two others
subsets         one token with two signs, which its context decides
chance          p-values and false discoveries
controls        how often dictionaries and tokens with nothing to show pass the same tests
record          what was found, and its table
finding         all of it for every latent of a dictionary; clusters are those of `quadric.evidence.clusters`
"""
