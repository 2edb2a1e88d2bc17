"""What each command of `agent-lab` does. `cli.py` has their options, and prints."""
