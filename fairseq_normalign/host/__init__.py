"""fairseq as it is.

Checkpoints, special tokens, text → pairs, teacher forcing, the recorder, parsers.
"""
