"""fairseq as it is: checkpoints, special tokens, text → pairs, teacher forcing, the recorder,
parsers."""
