"""Short names of latents: written by a language model behind an endpoint, judged, scored and stored."""
