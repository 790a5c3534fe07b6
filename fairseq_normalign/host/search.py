"""How translations are searched for, unless said otherwise. Imports no PyTorch."""

SEARCH = {"beam": 4, "lenpen": 1.0, "max_len_a": 1.2, "max_len_b": 10}  # fairseq's names
