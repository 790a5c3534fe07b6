"""Work on a long corpus in pieces: chunks, a folder that keeps what is finished, and workers.

A corpus is cut into chunks by line numbers. The result of a chunk depends on the model, the options
of the command, what was decided on the first pairs, and the lines of the chunk; so it does not
matter who works on it, when, and after what. Imports neither PyTorch nor fairseq.
"""
