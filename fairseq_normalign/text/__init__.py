"""Words, pieces, lines of links, and what may be wrong with them. Needs no torch."""
