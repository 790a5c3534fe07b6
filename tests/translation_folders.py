"""Small random translation models as Hugging Face keeps them, made by its own package.

SentencePiece models are trained here. Models are tuned so far that translations end by themselves.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from fairseq_normalign.huggingface.multilingual import KNOWN
from tests.hugging_face import of_transformers

SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
    "init_std": 0.1,
    "dropout": 0.0,
}
ODD = [
    "Zoë paid 3.50 € for “naïve” ☃ things…",
    "ﬁne ½ ＡＢＣ e\u0301 \u00a0 x\u200by",
    "  two   blanks\tand a tab  ",
    "汉字 かな 한글 🙂🙃",
    "<b>tags</b> & »quotes« --",
    "ÄÖÜß ÀÉÎ ñ ŷ",
    "!!!",
    "a",
    "",
    "   ",
    "\u200b",
    "soft\u00adhyphen zero\u200dwidth\u200cjoin\ufeff",
    "👩\u200d👩\u200d👧 🇩🇪 🧑🏽 tag\U000e0041",
    "bell\x07 \x1f del\x7f nul\x00here",
    "▁",
    "▁▁ aeio a▁b x ▁ y",
    "line\u2028para\u2029nel\x85ideographic\u3000en\u2002quad",
    "\u202eRTL\u202c עברית العربية ﷺ",
    "①②③ Ⅷ ㎏ ﬀﬃ K Å ｶﾞｷﾞ 𝕳𝖊𝖑𝖑𝖔 \ufffd ǅ a\u0323\u0307",
    "“„‚‘’” —–‐‑ … don't 3.5% @-@ &amp; <0x0A> ##x y@@",
    "aeio >>aaa<< nrst",
]
# What transformers takes for special tokens wherever it is, and we for text.
SPELLED = ["aeio</s>nrst", "a <unk> b", "<pad>", "<mask> <s>"]
SOURCE, TARGET = "aeionrst", "uvwxyzal"  # letters of two languages
STEPS = 150  # of training


def sentences(count: int, letters: str = SOURCE, seed: int = 1) -> list[str]:
    """Lines of a made-up language; those of two languages with the same seed are translations."""
    maker, draws = random.Random(letters), random.Random(seed)
    words = ["".join(maker.choices(letters, k=maker.randint(2, 7))) for _ in range(30)]
    lines = []
    for _ in range(count):
        numbers = [draws.randrange(len(words)) for _ in range(draws.randint(1, 5))]
        line = " ".join(words[number] for number in numbers)
        lines.append(line.capitalize() + draws.choice(".!?"))
    return lines


def teach(model: Any, pairs: Sequence[tuple[list[int], list[int]]], steps: int) -> None:
    """Trains for a moment, so that translations are of many lengths, and end."""
    pad = model.config.pad_token_id
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    model.train()
    for step in range(steps):
        batch = [pairs[(step * 16 + number) % len(pairs)] for number in range(16)]
        inputs = padded([source for source, _ in batch], pad)
        labels = padded([target for _, target in batch], -100)
        optimizer.zero_grad()
        model(input_ids=inputs, attention_mask=inputs.ne(pad), labels=labels).loss.backward()
        optimizer.step()
    model.eval()


def padded(rows: Sequence[list[int]], value: int) -> torch.Tensor:
    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)


def train_sentencepiece(lines: Iterable[str], size: int, **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def marian_folder(
    path: Path,
    *,
    shared: bool = True,
    codes: Sequence[str] = (),
    reverse: bool = False,
    steps: int = STEPS,
    **config: Any,
) -> Any:
    """OPUS-MT's layout; returns the model.

    Args:
        reverse: the model of the other direction.
        steps: of training.
    """
    path.mkdir()
    models = [
        train_sentencepiece(sentences(200), 60),
        train_sentencepiece(sentences(200, TARGET), 50),
    ]
    languages = ["xx", "yy"]
    if reverse:
        models.reverse()
        languages.reverse()
    (path / "source.spm").write_bytes(models[0])
    (path / "target.spm").write_bytes(models[1])
    own = [sorted(set(pieces_of(model)[3:])) for model in models]
    listed = [sorted({*own[0], *codes}), own[1]]
    if shared:
        listed = [sorted({*own[0], *own[1], *codes})]
    vocabularies = [["</s>", "<unk>", *names, "<pad>"] for names in listed]
    size = max(map(len, vocabularies))  # as in OPUS-MT: the padding has one number for both
    for names in vocabularies:
        names[-1:] = [f"filler{number}" for number in range(size - len(names))] + ["<pad>"]
    for name, names in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        write_json(path / name, {piece: number for number, piece in enumerate(names)})
    settings = {
        **SIZES,
        "vocab_size": size,
        "decoder_vocab_size": size,
        "share_encoder_decoder_embeddings": shared,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        **config,
    }
    torch.manual_seed(3 + reverse)
    model = of_transformers("MarianMTModel")(of_transformers("MarianConfig")(**settings))
    model.final_logits_bias.copy_(torch.randn(1, size))
    texts = [sentences(100), sentences(100, TARGET)]
    if reverse:
        texts.reverse()
    numbered = []
    for spm, names, lines in zip(models, (vocabularies[0], vocabularies[-1]), texts, strict=True):
        numbers = {piece: number for number, piece in enumerate(names)}
        encoded = sentencepiece.SentencePieceProcessor(model_proto=spm).encode(lines, out_type=str)
        numbered.append([[*(numbers[piece] for piece in line), 0] for line in encoded])
    teach(model, list(zip(*numbered, strict=True)), steps)
    generation = model.generation_config
    generation.bad_words_ids = [[size - 1]]
    generation.num_beams, generation.max_length = 4, 60
    model.save_pretrained(path)
    told = {"source_lang": languages[0], "target_lang": languages[1], "separate_vocabs": not shared}
    write_json(path / "tokenizer_config.json", told)
    return model


CODES = {
    "m2m": ["__de__", "__en__"],
    "nllb": ["deu_Latn", "eng_Latn"],
    "mbart": ["de_DE", "en_XX"],
    "mbart50": ["de_DE", "en_XX"],
}
LISTED = {  # all languages, as the tokenisers of transformers know them
    "nllb": ["ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn"],
    "mbart": KNOWN["mbart"].split(),
    "mbart50": KNOWN["mbart50"].split(),
}
TOKENIZERS = {
    "m2m": "M2M100Tokenizer",
    "nllb": "NllbTokenizer",
    "mbart": "MBartTokenizer",
    "mbart50": "MBart50Tokenizer",
}
CLASSES = {
    "m2m": ("M2M100Config", "M2M100ForConditionalGeneration"),
    "nllb": ("M2M100Config", "M2M100ForConditionalGeneration"),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration"),
    "mbart50": ("MBartConfig", "MBartForConditionalGeneration"),
}


def multilingual_folder(path: Path, family: str, *, steps: int = STEPS, **config: Any) -> Any:
    """M2M-100's layout, or NLLB's, or mBART's; returns the model.

    ``numbers.json`` is for the tests alone: the number of each token.
    """
    path.mkdir()
    lines = [*sentences(200), *sentences(200, TARGET)]
    spm = train_sentencepiece(lines, 90, model_type="bpe" if family == "nllb" else "unigram")
    (path / "sentencepiece.bpe.model").write_bytes(spm)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(spm)[3:]]
    first, second = CODES[family]
    if family == "m2m":
        write_json(path / "vocab.json", {name: number for number, name in enumerate(names)})
        arguments = [str(path / "vocab.json"), str(path / "sentencepiece.bpe.model")]
        of_transformers("M2M100Tokenizer")(*arguments).save_pretrained(path)
        languages = KNOWN["m2m100"].split()
        names += [*(f"__{language}__" for language in languages), *map(str, range(8))]
    else:
        codes = LISTED[family]
        names += [*codes, "<mask>"]
        if family == "nllb":  # its tokeniser's settings have numbers; mBART's files a list alone
            special = {name: names.index(name) for name in [*names[:4], *codes, "<mask>"]}
            added = {str(number): {"content": name} for name, number in special.items()}
            write_json(path / "tokenizer_config.json", {"added_tokens_decoder": added})
        else:
            write_json(path / "special_tokens_map.json", {"additional_special_tokens": codes})
    numbers = {name: number for number, name in enumerate(names)}
    configuration, kind = CLASSES[family]
    settings = {**SIZES, "scale_embedding": True, "vocab_size": len(names), **config}
    if family == "mbart":
        settings["decoder_start_token_id"] = numbers[second]
    elif family == "mbart50":
        settings["decoder_start_token_id"] = 2
    torch.manual_seed(3)
    model = of_transformers(kind)(of_transformers(configuration)(**settings))
    encoder = sentencepiece.SentencePieceProcessor(model_proto=spm).encode
    coded = []
    for code, letters in ((first, SOURCE), (second, TARGET)):
        for_side = []
        for line in encoder(sentences(100, letters), out_type=str):
            pieces = [numbers.get(piece, 3) for piece in line]
            is_behind = family == "mbart"
            line_with_code = (
                [*pieces, 2, numbers[code]] if is_behind else [numbers[code], *pieces, 2]
            )
            for_side.append(line_with_code)
        coded.append(for_side)
    teach(model, list(zip(*coded, strict=True)), steps)
    generation = model.generation_config
    generation.num_beams, generation.max_length = 5, 60
    model.save_pretrained(path)
    write_json(path / "numbers.json", numbers)
    return model
