"""What each head is worth. No fairseq."""
