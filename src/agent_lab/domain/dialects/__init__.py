"""Wire formats: how each provider wants a history, and what it refuses."""

from agent_lab.domain.dialects.bodies import OWN_BODY, body_with, encode_body, render_body

__all__ = ["OWN_BODY", "body_with", "encode_body", "render_body"]
