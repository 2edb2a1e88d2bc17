"""How a refused history is mended: ordered passes, each with its reason."""
