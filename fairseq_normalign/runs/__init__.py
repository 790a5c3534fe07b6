"""A corpus in chunks: what is finished is kept, and shared by processes and machines."""
