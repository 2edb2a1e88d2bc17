"""What each provider refuses: tables of rules, and the small functions that find the faults."""
