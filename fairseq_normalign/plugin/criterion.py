"""``label_smoothed_cross_entropy_l0``: the translation loss, and a price for every open head.

The translation loss is fairseq's. ``--log-relevance`` also tells how relevant heads are meanwhile.
"""

import logging
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.distributed.utils import get_global_rank
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from fairseq_normalign.attention.lrp_rules import rule_set
from fairseq_normalign.attention.pair_relevance import relevances
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.relevance_log import Entry, GatedHead, as_line, read_log, summary
from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    attentions,
    head_names,
    head_numbers,
)
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.options import option
from fairseq_normalign.plugin.gating import gates

logger = logging.getLogger(__name__)

NAME = "relevance.jsonl"  # in --save-dir
RULES = "voita"


class RelevanceLog:
    """Writes a line at the start of a training and at each of its validations.

    Sentences are the first ones of the validation set that the model takes, the same ones every
    time, however they are batched. Relevance is pooled: all predictions of a sentence are explained
    together. With several workers, the first one does it. A line needs no gradients and no random
    numbers, so that the training goes on as it would without.

    A training that is resumed goes on with its file: lines of updates that it did not keep are
    replaced.
    """

    def __init__(self, task: Any, sentences: int, save_dir: str, subset: str):
        self.task, self.sentences, self.subset = task, sentences, subset
        self.path = Path(save_dir, NAME)
        self.pairs: list[Pair] | None = None  # read once
        self.last: int | None = None  # updates of the last line, or of the last try

    def add(self, model: FairseqModule, updates: int) -> None:
        """Writes a line, once for these updates, behind those of earlier ones."""
        is_new, self.last = updates != self.last, updates
        if get_global_rank() != 0 or not is_new:
            return
        known = read_log(self.path) if self.path.is_file() else []
        earlier = [entry for entry in known if entry.updates < updates]
        dropped = sum(entry.updates > updates for entry in known)
        if dropped:
            logger.warning(
                f"{self.path}: replacing {dropped} lines of a training that went on after "
                f"{updates} updates"
            )
        try:
            entry = self.entry(model, updates)
        except InputError as error:  # a training that diverges goes on, as it does without
            if not earlier:
                raise
            logger.warning(f"no relevance of gated heads at {updates} updates: {error}")
            return
        if earlier and entry.heads.keys() != earlier[0].heads.keys():
            raise InputError(f"{self.path}: other heads are gated now; use another --save-dir")
        entries = [*earlier, entry]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as file:
            file.writelines(f"{as_line(entry)}\n" for entry in entries)
        logger.info(summary(entries))

    def entry(self, model: FairseqModule, updates: int) -> Entry:
        """Gates and relevance of all gated heads now."""
        forcing = TeacherForcing(model, self.task)
        if self.pairs is None:
            valid = binarised_pairs(self.subset, PairReader(self.task))
            self.pairs = list(islice(filter(forcing.takes, valid), self.sentences))
        # The share of each head in its layer's relevance, pooled, mean over sentences.
        tally = Tally({"heads": head_names(model)})
        device = next(model.parameters()).device
        with torch.autocast(device.type, enabled=False):  # --amp halves only what the loss needs
            for of_pair in relevances(forcing, self.pairs, rules=RULES, pooled=True):
                for attention, shares in of_pair.heads.items():  # (1, H)
                    tally.add_cases("relevance", attention, shares.T)
        relevance = tally.means("relevance")
        heads = {}
        for name, projection in gates(model).items():
            numbers = head_numbers(attentions(model)[name])
            values = projection.gate_values().tolist()
            chances = projection.open_probabilities().tolist()
            for number, gate, chance in zip(numbers, values, chances, strict=True):
                head = Head(*name, number)
                heads[head] = GatedHead(gate, chance, relevance[head])
        return Entry(updates, len(self.pairs), f"{rule_set(RULES).spec}-pooled", heads)


@dataclass  # no postponed annotations in this file: fairseq reads the types of these fields
class L0CriterionConfig(LabelSmoothedCrossEntropyCriterionConfig):
    l0_lambda: float = option(
        0.005, "λ: what one open head costs, in the unit of the loss of a target token"
    )
    l0_lambda_encoder: Optional[float] = option(
        None, "λ of encoder self-attention (default: --l0-lambda)"
    )
    l0_lambda_decoder: Optional[float] = option(
        None, "λ of decoder self-attention (default: --l0-lambda)"
    )
    l0_lambda_cross: Optional[float] = option(
        None, "λ of source–target attention (default: --l0-lambda)"
    )
    l0_warmup_updates: int = option(
        0,
        "updates over which λ rises from 0 or, with --target-heads, the wanted heads "
        "fall from all to these",
    )
    target_heads: Optional[int] = option(
        None, "steer λ until this many of the gated heads are open"
    )
    log_relevance: int = option(
        0,
        "at each validation, the LRP relevance of all gated heads on the first so many "
        "sentences, in the log and in relevance.jsonl of --save-dir",
    )
    save_dir: str = II("checkpoint.save_dir")
    valid_subset: str = II("dataset.valid_subset")


@register_criterion("label_smoothed_cross_entropy_l0", dataclass=L0CriterionConfig)
class L0Criterion(LabelSmoothedCrossEntropyCriterion):
    """Loss per target token + Σ_h λ P(g_h ≠ 0) over all gated heads h (Voita et al., 2019).

    The validation loss is without the second term, so that it tells of translation alone.
    """

    def __init__(self, task, cfg: L0CriterionConfig):
        super().__init__(
            task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy
        )
        self.warmup, self.target = cfg.l0_warmup_updates, cfg.target_heads
        self.lambdas: dict[str, float] = {}
        for kind in KINDS:
            own = getattr(cfg, f"l0_lambda_{kind}")
            self.lambdas[kind] = value = cfg.l0_lambda if own is None else own
            name = "--l0-lambda" if own is None else f"--l0-lambda-{kind}"
            if not value >= 0 or (value == 0 and self.target is not None):
                raise InputError(
                    f"{name} {value}: must be 0 or more, and above 0 with --target-heads"
                )
        if min(cfg.l0_warmup_updates, cfg.log_relevance) < 0:
            raise InputError("--l0-warmup-updates and --log-relevance must be 0 or more")
        self.relevance_log = None
        if cfg.log_relevance:
            subset = cfg.valid_subset.split(",")[0]
            self.relevance_log = RelevanceLog(task, cfg.log_relevance, cfg.save_dir, subset)

    @classmethod
    def build_criterion(cls, cfg: L0CriterionConfig, task):
        return cls(task, cfg)

    def forward(self, model, sample, reduce=True):
        if self.relevance_log is not None:
            self._log_relevance(model, self.relevance_log)
        loss, sample_size, logging_output = super().forward(model, sample, reduce)
        penalty, state = self.penalty(model)
        if model.training:
            # The loss is a sum over tokens, which the trainer divides: so λ is per token whatever
            # it divides by.
            loss = loss + penalty * sample["ntokens"]
            logging_output["loss"] = loss.data
        logging_output.update(state, gate_logs=1)
        return loss, sample_size, logging_output

    def _log_relevance(self, model: FairseqModule, log: RelevanceLog) -> None:
        """Before the first batch of a training, and before the first of each validation."""
        check_gated(model)
        before = model.steering.updates  # as the model was told before the last update
        if model.training:
            if log.last is None:
                log.add(model, before)
        elif log.last is not None:  # the training has begun
            # What fairseq counts: an update that overflows is none.
            counted = metrics.get_meter("train", "num_updates")
            has_counted = counted is not None and counted.val is not None
            log.add(model, int(counted.val) if has_counted else before + 1)

    def penalty(self, model: FairseqModule) -> tuple[Tensor, dict[str, float]]:
        """Σ_h λ P(g_h ≠ 0) with today's λ, and what is logged.

        Logged is how far the heads of each kind are open.
        """
        check_gated(model)
        by_attention = []
        kinds: list[str] = []  # of each gated head
        closed = 0
        for (kind, _), projection in gates(model).items():
            by_attention.append(projection.open_probabilities())
            kinds += [kind] * len(projection.log_alpha)
            closed += int((projection.gate_values() == 0).sum())
        probabilities = torch.cat(by_attention)
        factor = self._factor(model, len(kinds), closed)
        lambdas = probabilities.new_tensor([self.lambdas[kind] for kind in kinds])
        prices = factor * lambdas
        if self.target is not None and len(kinds) - closed < self.target:
            # They closed together: some are to reopen.
            widest = probabilities.detach().argsort(descending=True)[: self.target]
            prices[widest] = -lambdas[widest]
        penalty = (prices * probabilities).sum()
        state = {"closed_heads": closed, "l0_penalty": penalty.item()}
        for kind, probability in zip(kinds, probabilities.tolist(), strict=True):
            state[f"open_{kind}"] = state.get(f"open_{kind}", 0.0) + probability
            state[f"lambda_{kind}"] = factor * self.lambdas[kind]
        return penalty, state

    def _factor(self, model: FairseqModule, total: int, closed: int) -> float:
        """What λ is multiplied by now: by the warm-up or, with a target, by what steers there."""
        steering = model.steering
        progress = 1.0 if self.warmup == 0 else min(1.0, steering.updates / self.warmup)
        if self.target is None:
            return progress
        if not 0 <= self.target <= total:
            raise InputError(f"--target-heads {self.target}: there are {total} gated heads")
        wanted = max(self.target, total - progress * (total - self.target))
        excess = total - closed - wanted
        if model.training:
            steering.steer(excess)
        # Once enough are closed, the rest is left to the translation loss.
        return steering.factor if excess > 0 else 0.0

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        super().reduce_metrics(logging_outputs)
        count = sum(log.get("gate_logs", 0) for log in logging_outputs)
        names = [f"{what}_{kind}" for what, kind in product(("open", "lambda"), KINDS)]
        for name in (*names, "closed_heads", "l0_penalty"):
            if count and name in logging_outputs[0]:
                mean = sum(log.get(name, 0) for log in logging_outputs) / count
                metrics.log_scalar(name, mean, count, round=4)


def check_gated(model: FairseqModule) -> None:
    """Refuses a model that has no gates."""
    if not gates(model):
        raise InputError(
            "the model has no gates: add --gate-heads encoder,decoder,cross, or some of them"
        )
