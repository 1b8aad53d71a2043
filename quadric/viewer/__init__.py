"""Show latents in a browser: a static site, a server for it, and a picture for notebooks.

schema        every file and field of a site
export        autoencoders and evidence -> site; `latent_pages`, `layout` and `comparisons` compute its parts
writer        schema objects -> files; `checking` refuses what cannot be shown, `encoding` packs arrays
serve         a local server
notebook      one latent as a self-contained page
"""
