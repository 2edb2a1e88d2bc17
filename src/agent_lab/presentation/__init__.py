"""Faces: command line, terminal, pytest plugin, and the server with its wire, guard and routes."""
