"""What attention adds up. Pure functions on tensors: torch only, no fairseq."""
