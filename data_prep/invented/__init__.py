"""Two invented languages and the sentences they share."""
