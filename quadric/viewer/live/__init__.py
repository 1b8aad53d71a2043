"""The viewer with the language model behind it: text in, latents out, and steering, for this machine alone.

worker       one thread for the model: a bounded queue, progress, cancellation
session      the dictionaries that are served, and what can be asked of them: readings, continuations, next tokens
api          the questions over HTTP, which `quadric.viewer.serve` adds to a site

The API is used by the viewer's own page only; it is no public interface and may change with every version.
"""
