"""What combines the model and the pure rooms: soft methods, the aligner, head scores, LRP, pruning,
evaluation."""
