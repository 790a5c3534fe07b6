"""One alignment of what the chunks of a run have."""

from __future__ import annotations

from fairseq_normalign.alignment.signature import signed_file
from fairseq_normalign.runs.folder import RunFolder


def merge_run(folder: RunFolder) -> None:
    """Writes the output and its signature, then removes the folder of the run."""
    folder.refuse_running()
    chunks = folder.chunks()
    signature = (folder.decided() or {})["signature"]
    with signed_file(folder.output, signature) as file:
        for number in range(chunks):
            file.write(folder.body(number))
    folder.remove()
