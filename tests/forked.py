"""Commands that run in forks of a process which has loaded PyTorch and fairseq: that takes 4 s."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import torch

SERVER = multiprocessing.get_context("forkserver")
LOADED = ("train", "preprocess", "validate", "generate", "interactive")  # the first sets up logging
SERVER.set_forkserver_preload([f"fairseq_cli.{name}" for name in LOADED])


def run_forked(words: list[str], cwd: Path | None = None, input: str = ""):
    """What ``subprocess.run`` returns of ``fairseq-…``."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(input)
        command = SERVER.Process(target=_command, args=(words, cwd or Path.cwd(), streams))
        command.start()
        command.join()
        _, stdout, stderr = (stream.read_text() for stream in streams)
    return subprocess.CompletedProcess(words, command.exitcode, stdout, stderr)


def _command(words: list[str], folder: Path, streams: list[Path]) -> None:
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(folder)
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # for readers of data, as in a new process
    sys.argv = words
    (script,) = entry_points(group="console_scripts", name=words[0])
    try:
        script.load()()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:
        atexit._run_exitfuncs()  # a process of multiprocessing ends without them
