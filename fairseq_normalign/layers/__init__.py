"""What layers do to representations: mixing, statistics, evolution, probing."""
