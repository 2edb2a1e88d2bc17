"""From a provider's wire format to our messages, one file a format: the inverse of rendering."""
