"""What the states of a model's layers hold: N vectors of width C, one for each token, by layer."""
