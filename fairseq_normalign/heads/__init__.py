"""What each head is worth and does: gates, pruning, and the table of head scores."""
