"""From a path to a model that runs: fairseq checkpoints, text → pairs, teacher forcing."""
