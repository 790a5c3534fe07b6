"""Options of runs that are long: what divides the work, and what tells one run from another."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.cli import checks, shell
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import digest_of, is_stream, short_names
from fairseq_normalign.options import read_options
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.chunks import Partial, Shard
from fairseq_normalign.runs.engines import Place, ray_cluster
from fairseq_normalign.runs.folder import RunFolder, is_given
from fairseq_normalign.runs.joins import merged
from fairseq_normalign.runs.measure import Job, Load, Made, Plan, Summed, made_in, run
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.host.lengths import TooLong
    from fairseq_normalign.host.options import ReadyModel
    from fairseq_normalign.host.raw_corpus import ChunkReader, RawCorpus
    from fairseq_normalign.host.teacher_forcing import Model

# What does not change the result, or is known by other means: texts by the lines of each chunk, and
# what became of long pairs by the notes of chunks that had any.
NOT_COMPARED = {
    *("too_long", "workers", "engine", "ray_address", "num_shards", "shard_id", "restart", "quiet"),
    *("output", "learned", "fairseq_argv", "found", *checks.TEXTS),
    "cpu",  # the device is compared
}
CALLED = {"data": "DATA", "others": "other options"}  # in messages


def keeps(args: Namespace) -> bool:
    """Whether there is a file beside which something can be kept."""
    return args.output is not None and not is_stream(args.output)


def check_run_options(args: Namespace) -> None:
    """Refuses options that do not go together."""
    if args.shard_id >= args.num_shards:
        raise InputError(
            f"--shard-id {args.shard_id}: expected a number from 0 to {args.num_shards - 1}, as "
            f"there are {args.num_shards} shards"
        )
    if not keeps(args):
        args.given.discard("output")  # a stream keeps nothing
    checks.requires(args, "output", "num_shards", "restart", value="FILE")
    checks.requires(args, "engine", "ray_address", value="ray")
    checks.excludes(args, "num_shards", "plot")
    if args.restart and args.num_shards > 1:
        raise InputError(
            f"--restart would remove what other shards have done; to begin anew, remove "
            f"{args.output}.run before the first shard starts"
        )


def command_of(args: Namespace) -> dict[str, Any]:
    """All that the result depends on, as options that fairseq has not completed yet."""
    command: dict[str, Any] = {"version": __version__}
    for name, value in vars(args).items():
        if name == "max_tokens" and not getattr(args, "confidence", True):
            continue  # links stay: whoever ran out of memory may go on with smaller batches
        if name not in NOT_COMPARED and is_given(value):
            command[CALLED.get(name, checks.flag(name))] = _with_digests(name, value)
    return command


def _with_digests(name: str, value: Any) -> Any:
    """Files by name and contents."""
    if isinstance(value, list):
        return [_with_digests(name, part) for part in value]
    if name in ("data", "reverse_data"):
        folders = list(map(Path, value.split(":")))
        files: list[Path] = []
        for folder in folders:
            files += [*sorted(folder.glob("dict.*")), *folder.glob("reading.json")]
        return f"{':'.join(folder.name for folder in folders)} ({digest_of(files)})"
    if name in (*checks.CHECKPOINTS, *checks.INPUTS) and Path(value).is_file():
        return f"{Path(value).name} ({digest_of([Path(value)])})"
    return value


@contextmanager
def kept_run(
    args: Namespace, command: Mapping[str, Any], told: Mapping[str, Any], shard: Shard
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
    too_long: TooLong
    title: str


def each(args: Namespace) -> list[Namespace]:
    """The options for each checkpoint by itself, to be given to ``host.options.load``.

    ``model_name`` is what people call it, and ``model_number``, from 1, stands in the names of what
    is measured; None if there is one checkpoint.
    """
    of_each = []
    for number, (path, name) in enumerate(zip(args.path, short_names(args.path), strict=True), 1):
        own = {"path": path, "model_name": name}
        own["model_number"] = number if len(args.path) > 1 else None
        of_each.append(Namespace(**{**vars(args), **own}))
    return of_each


def checked_each(args: Namespace) -> list[Namespace]:
    """The same; refuses checkpoints that cannot be read, or differ, before the first is measured.

    Args:
        args: options that are complete, with a list in ``path``.
    """
    from fairseq_normalign.host.attention_modules import head_names
    from fairseq_normalign.host.special_tokens import languages_of

    of_each = each(args)
    directions, heads = [], set()
    for of_one in of_each if len(of_each) > 1 else []:
        model = load_model(of_one)
        source, target = languages_of(model.reader.task)
        directions.append(f"{source}-{target}")
        heads.add(frozenset(head_names(model.forcing.model)))  # as they were called at first
    checks.check_directions(args.path[: len(directions)], directions)
    if len(heads) > 1:
        raise InputError(
            "--path: the checkpoints have different layers or heads; name models of one "
            "architecture with the same heads, or measure each alone"
        )
    return of_each


def load_model(args: Namespace) -> ReadyModel:
    from fairseq_normalign.host.options import load

    return load(args, attention=getattr(args, "attention", "cross"))


def open_corpus(args: Namespace) -> tuple[RawCorpus, ChunkReader]:
    """The corpus that the options name, examined, and what reads it for the model."""
    from fairseq_normalign.host.pairs import EXAMINED_PAIRS

    model = load_model(args)
    corpus = corpus_of(args, model)
    reader = reader_of(args, model, corpus.kind)
    first = list(islice(corpus.items, EXAMINED_PAIRS))
    reader.examine(first)
    return corpus._replace(items=chain(first, corpus.items)), reader


def corpus_of(args: Namespace, model: Model) -> RawCorpus:
    """The corpus that the options name, as far as ``--limit`` goes."""
    from fairseq_normalign.host.raw_corpus import raw_corpus

    need_target = "target" in model.forcing.sides
    return raw_corpus(args, [model], need_target=need_target, limit=getattr(args, "limit", None))


def reader_of(args: Namespace, model: Model, kind: str) -> ChunkReader:
    from fairseq_normalign.host.raw_corpus import ChunkReader

    longest, share = getattr(args, "max_length", None), getattr(args, "mask_share", None)
    masks = None if share is None else (share, args.seed)
    return ChunkReader([model], kind, too_long=args.too_long, longest=longest, masks=masks)


def load_reader(args: Namespace, kind: str, place: Place) -> ChunkReader:
    """The model in another process."""
    from fairseq_normalign import plugin  # noqa: F401  (registers)
    from fairseq_normalign.host.options import take_place

    take_place(args, place)
    return reader_of(args, load_model(args), kind)


def reading_task(
    args: Namespace,
    jobs: Sequence[Job],
    corpus: RawCorpus,
    reader: ChunkReader,
    title: str,
) -> Task:
    """What is measured of a corpus that is open."""
    load = partial(load_reader, args, corpus.kind)
    return Task(jobs, reader, load, reader.too_long_pairs(), title)


Tasks = Callable[[Namespace, "RunFolder | None"], Iterable[Task]]
Finish = Callable[[Namespace, Mapping[str, Made]], object]


def run_command(
    name: str,
    args: Namespace,
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
    told = {"command": name, **vars(args)}
    complete(args, defaults)
    command["device"] = args.device.type
    plan = read_options(Plan, args, gpu=args.device.type == "cuda")
    cluster = ray_cluster(plan.ray_address) if plan.engine == "ray" else nullcontext()
    with cluster, kept_run(args, command, told, plan.shard) as folder:
        too_long = []
        made: dict[str, Made] = {}
        for task in tasks(args, folder):
            too_long.append(task.too_long)
            made |= _made(task, plan, folder)
        if folder is not None:
            folder.finish(plan.shard, folder.counted)
            if folder.done_before:
                shell.note(f"{folder.done_before} pairs were done before")
        if plan.num_shards == 1:
            finish(args, made if folder is None else made_in(folder))
            if folder is not None:
                folder.remove()
        for of_task in too_long:
            of_task.tell()
    if plan.num_shards > 1:
        shell.note(f"{plan.shard} is done; when all are: normalign merge {args.output}")


def _made(task: Task, plan: Plan, folder: RunFolder | None) -> dict[str, Made]:
    """What is made of all jobs, unless a folder keeps it: text as it comes, or sums."""
    partials = _partials(task, plan, folder)
    if folder is not None:
        for _ in partials:
            pass
        return {}
    first = task.jobs[0]
    if not isinstance(first.measure, Summed):
        return {first.measure.name: Made(first.prepared, (made for _, made in partials))}
    totals = {job.measure.name: Partial() for job in task.jobs}
    for name, made in partials:
        totals[name] = merged(totals[name], made)
    return {job.measure.name: Made(job.prepared, [totals[job.measure.name]]) for job in task.jobs}


def _partials(task: Task, plan: Plan, folder: RunFolder | None) -> Iterator[tuple[str, Partial]]:
    """What is made of each chunk, while a bar shows how far it is."""
    totals = [job.total for job in task.jobs]
    total = None if None in totals else sum(filter(None, totals)) // plan.num_shards
    load = (lambda place: task.models) if plan.is_local else task.load
    with bar(task.title, total=total) as shown:
        note, progress = task.too_long.add, shown.update
        yield from run(task.jobs, load, plan, folder, note=note, progress=progress)
