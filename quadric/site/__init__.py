"""The viewer's data and how it reaches a browser: the format of a site, its writer, its server, a notebook picture."""
