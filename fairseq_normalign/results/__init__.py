"""What came out, as files. Knows no measure, and needs no torch."""
