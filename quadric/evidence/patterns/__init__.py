"""The paper's example geometries, as tests that can fail: cone, cluster, interpolation, subset.

statistics  of cones, interpolations and subsets, and what chance makes of them
record      what was found, its table, and how often dictionaries with nothing to show pass the same tests
finding     all of it for every latent of a dictionary; clusters are those of `quadric.evidence.clusters`
"""
