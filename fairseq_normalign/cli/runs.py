"""Options of runs that are long: what divides the work, and what tells one run from another."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq_normalign.cli import options
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream
from fairseq_normalign.runs.chunks import PAIRS, Shard
from fairseq_normalign.runs.engines import ENGINES
from fairseq_normalign.runs.folder import RunFolder, is_given
from fairseq_normalign.runs.plan import Plan
from fairseq_normalign.version import __version__

# What does not change the result, or is known by other means: texts by the lines of each chunk, and
# what became of long pairs by the notes of chunks that had any.
NOT_COMPARED = {
    *("too_long", "workers", "engine", "ray_address", "num_shards", "shard_id", "restart", "quiet"),
    *("output", "lexicon", "decision", "own", "fairseq_argv", *options.TEXTS),
    "cpu",  # the device is compared
}
PARTS_OF_DATA = ("dict.*", "reading.json")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "large corpora", "a run that was killed goes on if the same command is given again"
    )
    group.add_argument(
        "--restart", action="store_true", help="begin anew, whatever a killed run has left"
    )
    group.add_argument(
        "--workers", type=options.positive, metavar="N", help="processes, or GPUs (default: 1)"
    )
    group.add_argument(
        "--num-shards",
        type=options.positive,
        default=1,
        metavar="N",
        help="divide the corpus among N commands; then: normalign merge OUTPUT",
    )
    group.add_argument(
        "--shard-id", type=options.from_0, default=0, metavar="K", help="which one this is, from 0"
    )
    group.add_argument(
        "--engine", choices=ENGINES, default="local", help="ray: workers of a Ray cluster"
    )
    group.add_argument(
        "--ray-address", metavar="ADDRESS", help="of the cluster (default: a Ray of this machine)"
    )
    group.add_argument(
        "--chunk",
        type=options.positive,
        default=PAIRS,
        metavar="N",
        help="pairs that are worked on, and kept, together (default: %(default)s)",
    )


def check_restart(args: argparse.Namespace) -> None:
    """Refuses ``--restart`` where nothing is kept."""
    if args.restart and not keeps(args):
        raise InputError("--restart is about what is kept of --output FILE; expected that with it")


def keeps(args: argparse.Namespace) -> bool:
    """Whether there is a file beside which something can be kept."""
    return args.output is not None and not is_stream(args.output)


def check_run_options(args: argparse.Namespace) -> None:
    """Refuses options that do not go together."""
    if args.shard_id >= args.num_shards:
        raise InputError(
            f"--shard-id {args.shard_id}: expected a number from 0 to {args.num_shards - 1}, as "
            f"there are {args.num_shards} shards"
        )
    if args.num_shards > 1 and not keeps(args):
        raise InputError("--num-shards needs --output FILE, where the shards meet")
    check_restart(args)
    if args.restart and args.num_shards > 1:
        raise InputError(
            f"--restart would remove what other shards have done; to begin anew, remove "
            f"{args.output}.run before the first shard starts"
        )
    if args.all and (args.workers or args.engine != "local" or args.num_shards > 1 or args.restart):
        raise InputError(
            "--all works in one process; expected no --workers, --engine, --num-shards or "
            "--restart with it"
        )
    if args.ray_address and args.engine != "ray":
        raise InputError("--ray-address belongs to --engine ray")


def plan_of(args: argparse.Namespace) -> Plan:
    """How the options divide the work."""
    return Plan(
        pairs=args.chunk,
        shard=Shard(args.shard_id, args.num_shards),
        workers=args.workers,
        engine=args.engine,
        ray_address=args.ray_address,
        gpu=args.device.type == "cuda",
    )


def command_of(args: argparse.Namespace) -> dict[str, Any]:
    """All that the result depends on, as options that fairseq has not completed yet."""
    command: dict[str, Any] = {"version": __version__}
    for name, value in vars(args).items():
        if name == "max_tokens" and not getattr(args, "confidence", True):
            continue  # links stay: whoever ran out of memory may go on with smaller batches
        if name not in NOT_COMPARED and is_given(value):
            command[_flag(name)] = _with_digests(name, value)
    return command


def _flag(name: str) -> str:
    names = {"data": "DATA", "others": "other options"}
    return names.get(name, f"--{name.replace('_', '-')}")


def _with_digests(name: str, value: Any) -> Any:
    """Files by name and contents."""
    if isinstance(value, list):
        return [_with_digests(name, part) for part in value]
    if name in ("data", "reverse_data"):
        folders = [Path(folder) for folder in value.split(":")]
        return [f"{folder.name} ({_folder_digest(folder)})" for folder in folders]
    if name in (*options.CHECKPOINTS, *options.INPUTS) and Path(value).is_file():
        return f"{Path(value).name} ({_file_digest(Path(value))})"
    return value


def _folder_digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for pattern in PARTS_OF_DATA:
        for path in sorted(folder.glob(pattern)):
            digest.update(f"{path.name} {_file_digest(path)}\n".encode())
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def kept_run(
    args: argparse.Namespace, command: dict[str, Any], shard: Shard
) -> Iterator[RunFolder | None]:
    """The folder where what is finished is kept; none if the output is a stream.

    An error leaves what was finished, and says so.
    """
    if not keeps(args):
        yield None
        return
    folder = RunFolder(args.output)
    folder.begin(command, restart=args.restart)
    try:
        with folder.alone(shard):
            yield folder
    except InputError as error:
        kept = folder.leave()
        if not kept:
            raise
        raise InputError(f"{error} ({kept} finished chunks are kept in {folder.path})") from None
    except BaseException:  # as a cluster ends what it wants to run again
        folder.leave(keep_decision=True)
        raise
