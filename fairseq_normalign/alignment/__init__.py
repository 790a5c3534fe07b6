"""From soft alignments to links: the aligner, combination without gold, symmetrization, AER.

Links and scores need no torch.
"""
