"""Links between words and how good they are. Plain Python and NumPy: no torch, no fairseq.

A link is ``(source, target)``, two 0-based word indices. A soft alignment is a matrix (T, S): a row
per target word, a column per source word.
"""
