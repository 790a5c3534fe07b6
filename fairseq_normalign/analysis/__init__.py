"""What combines the model and the pure rooms.

Soft methods, the aligner, head scores, LRP, pruning, evaluation.
"""
