"""What the README's figures come from: `make bench`, or `python -m bench --help`."""
