"""Accuracies of linear classifiers as text and picture."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_normalign.layers.probing import Probing
from fairseq_normalign.results.columns import columns
from fairseq_normalign.results.style import in_style

NOTHING = "–"


def as_text(probings: Sequence[Probing]) -> str:
    """A row for each layer: the accuracy of each model, and that of shuffled tags."""
    headings = ["layer"]
    for probing in probings:
        headings += [probing.name, "shuffled"]
    rows = [headings]
    for layer in range(max(len(probing.accuracy) for probing in probings)):
        cells = [str(layer)]
        for probing in probings:
            for values in (probing.accuracy, probing.shuffled):
                cells.append(f"{values[layer]:.3f}" if layer < len(values) else NOTHING)
        rows.append(cells)
    first = probings[0]
    last = (
        f"accuracy on {first.test_words} words; {len(first.tags)} tags, learned from "
        f"{first.train_words} words of other sentences; most frequent tag: {first.majority:.3f}"
    )
    return "\n".join([*columns(rows), last])


@in_style
def picture(probings: Sequence[Probing]) -> Figure:
    """Accuracies by layer, those of shuffled tags and of the most frequent tag below."""
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for probing in probings:
        layers = range(len(probing.accuracy))
        (line,) = axes.plot(layers, probing.accuracy, marker="o", label=probing.name)
        axes.plot(layers, probing.shuffled, color=line.get_color(), ls=":", lw=1)
    axes.axhline(probings[0].majority, color="grey", ls="--", lw=1, label="most frequent tag")
    axes.set_title("accuracy of UPOS (dotted: shuffled tags)", fontsize="small")
    axes.set_xlabel("layer")
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="x-small")
    return figure
