"""One alignment of what the chunks of a run have."""

from __future__ import annotations

from fairseq_normalign.alignment.signature import signed_file
from fairseq_normalign.errors import InputError
from fairseq_normalign.runs.folder import RunFolder


def merge_run(folder: RunFolder) -> None:
    """Writes the output and its signature, then removes the folder of the run."""
    folder.refuse_running()
    chunks = folder.chunks()
    signature = (folder.decided() or {}).get("signature")
    if not isinstance(signature, dict):
        raise InputError(f"{folder.path}: what the run has decided is damaged; run it again")
    signature = dict(signature)
    policies: dict[str, str] = {}  # for long pairs, and where the first of them is
    with signed_file(folder.output, signature) as file:
        for number in range(chunks):
            body, notes = folder.result(number)
            count, places = notes["too_long"]
            if count:
                policies.setdefault(notes["policy"], places[0])
                _refuse_several(policies)
            file.write(body)
        for policy in policies:  # of which there is one at most
            signature["too-long"] = policy
    folder.remove()


def _refuse_several(policies: dict[str, str]) -> None:
    """Refuses shards that have dealt with long pairs in different ways."""
    if len(policies) > 1:
        ways = [f"{place} with --too-long {policy}" for policy, place in policies.items()]
        raise InputError(
            f"{' and '.join(ways)}: expected all shards to be run with the same, from the start"
        )
