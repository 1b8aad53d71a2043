"""The viewer with the language model behind it: text in, latents out, and steering, for this machine alone.

worker       one thread for the model: a bounded queue, progress, cancellation
answers      recent answers, kept within a bound
steering     continuations and next tokens with and without an intervention
session      the dictionaries that are served, and what can be asked of them
app          the ASGI application: the site's files, and the API beside them
serving      the server on the loopback address

The API is used by the viewer's own page only; it is no public interface and may change with every version.
"""
