"""One worker of a training: ``python -m tests.plugin.ddp_worker FILE`` and words of fairseq-train.

FILE gets what the worker has after each update, and its parameters at the end: fairseq itself
writes those of the first worker alone.
"""

import sys
from typing import Any

import torch
from fairseq import trainer
from fairseq_cli.train import cli_main

from fairseq_normalign.plugin.gating import gates

history: list[dict[str, Any]] = []
trainers: list[trainer.Trainer] = []


def remembering(train_step):
    def step(self, samples, *args, **options):
        output = train_step(self, samples, *args, **options)
        projections = gates(self.get_model())
        history.append(
            {
                "tokens": [sample["ntokens"] for sample in samples if sample],
                "factor": self.get_model().steering.factor,
                "log_alpha": {name: gate.log_alpha.tolist() for name, gate in projections.items()},
                "noise": {name: gate.noise.tolist() for name, gate in projections.items()},
            }
        )
        trainers[:] = [self]
        return output

    return step


def main() -> None:
    output = sys.argv.pop(1)
    trainer.Trainer.train_step = remembering(trainer.Trainer.train_step)
    cli_main()
    parameters = trainers[0].get_model().state_dict()
    torch.save({"history": history, "parameters": parameters}, output)


if __name__ == "__main__":
    main()
