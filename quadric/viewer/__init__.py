"""Show latents in a browser: a static site, a server for it, and a picture for notebooks.

schema        every file and field of a site
export        autoencoders and evidence -> site; its parts: `dictionaries`, `latent_pages`, `comparisons`
writer        schema objects -> files, within the limits of hosts; `encoding` packs arrays
serve         the server, for this machine alone; `live` adds questions to the language model
notebook      one latent as a self-contained page
"""
