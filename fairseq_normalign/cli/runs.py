"""Options of runs that are long: what divides the work, and what tells one run from another."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.cli import options, shell
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream
from fairseq_normalign.progress import bar, is_quiet
from fairseq_normalign.runs.chunks import Partial, Shard
from fairseq_normalign.runs.engines import ENGINES, ray_cluster
from fairseq_normalign.runs.folder import RunFolder, is_given
from fairseq_normalign.runs.measure import (
    Appended,
    Job,
    Load,
    Made,
    Plan,
    made_in,
    run,
    run_and_keep,
)
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.host.raw_corpus import Notes

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
        metavar="N",
        help="pairs that are worked on, and kept, together (default: 1000, and fewer of what takes "
        "long)",
    )


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
    if args.restart and not keeps(args):
        raise InputError("--restart is about what is kept of --output FILE; expected that with it")
    if args.restart and args.num_shards > 1:
        raise InputError(
            f"--restart would remove what other shards have done; to begin anew, remove "
            f"{args.output}.run before the first shard starts"
        )
    if args.num_shards > 1 and getattr(args, "plot", None):
        raise InputError("--plot draws the whole corpus; expected no --num-shards with it")
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
    args: argparse.Namespace, command: Mapping[str, Any], told: Mapping[str, Any], shard: Shard
) -> Iterator[RunFolder | None]:
    """The folder where what is finished is kept; none if the output is a stream.

    An error leaves what was finished, and says so.

    Args:
        command: all that the result depends on.
        told: the options, for whoever merges shards.
    """
    if not keeps(args):
        yield None
        return
    folder = RunFolder(args.output)
    folder.begin(command, told, restart=args.restart)
    try:
        with folder.alone(shard):
            yield folder
    except InputError as error:
        kept = folder.leave()
        if not kept:
            raise
        raise InputError(f"{error} ({kept} finished chunks are kept in {folder.path})") from None
    except BaseException:  # as a cluster ends what it wants to run again
        folder.leave(keep_prepared=True)
        raise


class Task(NamedTuple):
    """What is measured of one model."""

    jobs: Sequence[Job]
    models: Any  # as they are in this process
    load: Load  # loads them in another one
    notes: Notes
    title: str


Tasks = Callable[[argparse.Namespace, "RunFolder | None"], Iterable[Task]]
Finish = Callable[[argparse.Namespace, Mapping[str, Made]], object]


def run_command(
    name: str,
    args: argparse.Namespace,
    tasks: Tasks,
    finish: Finish,
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Measures, here or elsewhere, and finishes the result unless this is one shard of several.

    Args:
        tasks: yields what is to be measured, one model after the other.
        finish: writes and shows what came out; ``normalign merge`` calls it, too.
        defaults: of fairseq's options.
    """
    from fairseq_normalign.cli.model import complete

    command = {"command": name, **command_of(args)} if keeps(args) else {}
    told = {"command": name, **_as_json(args)}
    complete(args, defaults)
    command["device"] = args.device.type
    plan = plan_of(args)
    cluster = ray_cluster(plan.ray_address) if plan.engine == "ray" else nullcontext()
    with cluster, kept_run(args, command, told, plan.shard) as folder:
        notes = []
        made: dict[str, Made] = {}
        ends: dict[str, tuple[int, int]] = {}
        for task in tasks(args, folder):
            notes.append(task.notes)
            if folder is None:
                made |= _made(task, plan)
            else:
                ends |= _kept(task, plan, folder)
        if folder is not None:
            folder.finish(plan.shard, ends)
        if plan.shard.of == 1:
            finish(args, made if folder is None else made_in(folder))
            if folder is not None:
                folder.remove()
        for of_task in notes:
            of_task.tell()
    if plan.shard.of > 1 and not is_quiet():
        shell.say(f"{plan.shard} is done; when all are: normalign merge {args.output}")


def _as_json(args: argparse.Namespace) -> dict[str, Any]:
    """The options, but not what they make of fairseq's."""
    return {name: value for name, value in vars(args).items() if name not in ("own", "quiet")}


def _made(task: Task, plan: Plan) -> dict[str, Made]:
    """What is made of all jobs: text as it comes, and sums when they are there."""
    partials = _shown(task, plan)
    first = task.jobs[0]
    if isinstance(first.measure, Appended):
        return {first.measure.name: Made(first.prepared, (made for _, made in partials))}
    totals = {job.measure.name: Partial() for job in task.jobs}
    measures = {job.measure.name: job.measure for job in task.jobs}
    for name, made in partials:
        totals[name] = measures[name].merge(totals[name], made)
    return {job.measure.name: Made(job.prepared, [totals[job.measure.name]]) for job in task.jobs}


def _shown(task: Task, plan: Plan) -> Iterator[tuple[str, Partial]]:
    with bar(task.title, total=_left(task, plan, None)) as shown:
        load = _loader(task, plan)
        yield from run(task.jobs, load, plan, note=task.notes.add, progress=shown.update)


def _kept(task: Task, plan: Plan, folder: RunFolder) -> dict[str, tuple[int, int]]:
    with bar(task.title, total=_left(task, plan, folder)) as shown:
        load = _loader(task, plan)
        note, progress = task.notes.add, shown.update
        return run_and_keep(task.jobs, load, plan, folder, note=note, progress=progress)


def _loader(task: Task, plan: Plan) -> Load:
    return (lambda place: task.models) if plan.is_local else task.load


def _left(task: Task, plan: Plan, folder: RunFolder | None) -> int | None:
    """How many pairs are still to do, if that is known; tells how many are not."""
    counts = [plan.left(job, folder) for job in task.jobs]
    before = sum(done for _, done in counts)
    if before and not is_quiet():
        shell.say(f"{before} pairs were done before")
    left = [todo for todo, _ in counts if todo is not None]
    return sum(left) if len(left) == len(counts) else None
