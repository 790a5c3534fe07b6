"""What stands on a source, carried over to its translation by word links: tags, labels, terms."""
