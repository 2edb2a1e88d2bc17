"""Concrete parts behind the application's ports. Only bootstrap imports them."""
