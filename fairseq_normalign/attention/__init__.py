"""What attention adds up: the recorder, αf(x) and its norms, whole blocks, LRP, soft methods."""
