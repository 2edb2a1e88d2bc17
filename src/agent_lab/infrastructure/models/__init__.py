"""Models: one module a provider or double."""
