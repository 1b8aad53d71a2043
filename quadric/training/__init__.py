"""Fits autoencoders to any iterator of batches."""
