"""LongDocFACTScore (Bishop et al. 2024): how likely is each sentence of a summary, given the nearest passages of the document?

For a summary sentence y, the `nearest` source sentences by cosine of sentence embeddings, each with its neighbour, are the
passages x₁..x_k. With BARTScore(y | x) = mean over the tokens of y of log p(token | tokens before, x):

    score(summary, document) = mean over y of  max over x_j of  BARTScore(y | x_j)          (≤ 0, higher is better)
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rovrl.errors import RovrlError, require
from rovrl.tasks.chat import as_text

_END = re.compile(r"""[.!?]+["'”’)\]]*(?=\s)|\n\s*\n""")
_ABBREVIATIONS = (
    "mr mrs ms dr prof sr jr st gen col sen rep gov hon pres no nos vol vols pp p fig figs sec secs art ch para cl "
    "vs v etc e.g i.e cf al approx dept est inc ltd co corp bros assn natl intl u.s u.k u.n d.c ph.d a.m p.m "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun "
    "stat pub res cong sess supp reg fed cir ct cert amdt doc rept subch subpt tit"
)
_KNOWN = frozenset(_ABBREVIATIONS.split())
_OPENERS = "\"'“‘([-•*–—"


def by_rules(text: str) -> list[str]:
    """Sentences of `text`: cut after . ! ? before a capital, digit or quotation, and at blank lines.

    Not after an abbreviation ("Sec. 4", "U.S. Code"), an initial ("J. Smith") or a list number ("1. First").
    """
    sentences: list[str] = []
    start = 0
    for end in _END.finditer(text):
        mark = end.group()
        if not mark.isspace() and not _ends_sentence(text, start, end):
            continue
        _add_sentence(sentences, text[start : end.end()])
        start = end.end()
    _add_sentence(sentences, text[start:])
    return sentences


def by_pysbd(text: str) -> list[str]:
    """pysbd's sentences: finer rules, about a hundred times slower, so paragraph by paragraph."""
    pysbd = require("pysbd", extra="tasks")
    splitter = pysbd.Segmenter(language="en", clean=False)
    sentences: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in splitter.segment(paragraph):
            _add_sentence(sentences, sentence)
    return sentences


def by_nltk(text: str) -> list[str]:
    """NLTK's punkt sentences, which LongDocFACTScore's own program uses; needs its data file."""
    nltk = require("nltk", extra="tasks")
    try:
        return nltk.sent_tokenize(text)
    except LookupError:
        raise RovrlError(
            'NLTK\'s sentence model is not installed: run `python -m nltk.downloader punkt_tab`, or use splitter="rules"'
        ) from None


SPLITTERS: dict[str, Callable[[str], list[str]]] = {"rules": by_rules, "pysbd": by_pysbd, "nltk": by_nltk}


def _ends_sentence(text: str, start: int, end: re.Match[str]) -> bool:
    following = text[end.end() : end.end() + 40].lstrip()
    if following and not (following[0].isupper() or following[0].isdigit() or following[0] in _OPENERS):
        return False
    if end.group()[0] != "." or len(end.group()) > 1:
        return True
    word = text[max(start, end.start() - 24) : end.start()].rsplit(None, 1)[-1:] or [""]
    last = word[0].lstrip("\"'“‘([").lower()
    if last in _KNOWN or (len(last) == 1 and last.isalpha()):
        return False
    only_a_number = last.isdigit() and text[start : end.start()].strip() == last
    return not only_a_number


def _add_sentence(sentences: list[str], piece: str) -> None:
    piece = " ".join(piece.split())
    if piece:
        sentences.append(piece)


@dataclass(frozen=True)
class FactSettings:
    """The models and numbers of the score; the defaults are those of the authors' program."""

    embedder: str = "sentence-transformers/bert-base-nli-mean-tokens"
    likelihood: str = "facebook/bart-large"
    nearest: int = 3  # k, source sentences per summary sentence
    splitter: str = "rules"  # the authors' program uses "nltk"
    batch: int = 16
    max_tokens: int = 1024  # of a passage and of a summary sentence, BART's limit
    max_sentences: int = 200  # of a summary; what is beyond is not scored
    cached_documents: int = 256
    empty_score: float = -10.0  # a summary without a sentence: worse than any real one, so that silence does not pay
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.splitter not in SPLITTERS:
            raise ValueError(f"splitter must be one of {sorted(SPLITTERS)}, not {self.splitter!r}")
        for name in ("nearest", "batch", "max_tokens", "max_sentences", "cached_documents"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


class Source(NamedTuple):
    """A document's sentences and their unit embeddings [sentence, feature]."""

    sentences: list[str]
    embeddings: Tensor


class LongDocFACTScore:
    """The score with its two models in memory; documents are split and embedded once and remembered."""

    def __init__(self, settings: FactSettings | None = None):
        self.settings = settings or FactSettings()
        self.device = _device(self.settings.device)
        self.embed_tokenizer, self.embed_model = _load(self.settings.embedder, "AutoModel", self.device)
        self.tokenizer, self.model = _load(self.settings.likelihood, "AutoModelForSeq2SeqLM", self.device)
        self._sources: OrderedDict[bytes, Source] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, documents: Sequence[object], summaries: Sequence[object]) -> list[float | None]:
        """The score of each summary given its document; all sentences of the batch share the models' batches.

        None where there is no score: a document without a sentence, a likelihood that is not a finite number. A summary
        without a sentence has `empty_score`.
        """
        if len(documents) != len(summaries):
            raise ValueError(
                f"{len(documents)} documents but {len(summaries)} summaries: one document per summary is needed"
            )
        with self._lock, torch.no_grad():
            split = SPLITTERS[self.settings.splitter]
            sentences = [split(as_text(summary))[: self.settings.max_sentences] for summary in summaries]
            flat = [sentence for group in sentences for sentence in group]
            embeddings = self.embed(flat)
            questions: list[tuple[str, str]] = []  # (passage, summary sentence)
            owners: list[int] = []  # the sentence each question is about
            at = 0
            for document, group in zip(documents, sentences, strict=True):
                source = self.source(as_text(document))
                for offset, passages in enumerate(self.passages(source, embeddings[at : at + len(group)])):
                    questions += [(passage, group[offset]) for passage in passages]
                    owners += [at + offset] * len(passages)
                at += len(group)
            best = _maximum(self.log_likelihoods(questions), owners, len(flat))
        return self._means(best, [len(group) for group in sentences])

    def source(self, document: str) -> Source:
        """The document's sentences and embeddings, from memory if it was seen before."""
        key = hashlib.blake2b(document.encode(), digest_size=16).digest()
        known = self._sources.get(key)
        if known is None:
            sentences = SPLITTERS[self.settings.splitter](document)
            known = Source(sentences, self.embed(sentences))
            self._sources[key] = known
            if len(self._sources) > self.settings.cached_documents:
                self._sources.popitem(last=False)
        self._sources.move_to_end(key)
        return known

    def passages(self, source: Source, queries: Tensor) -> list[list[str]]:
        """For each query embedding the nearest source sentences, each widened by the sentence before (the first: after)."""
        if not source.sentences or not len(queries):
            return [[] for _ in range(len(queries))]
        nearest = (
            (queries @ source.embeddings.T).topk(min(self.settings.nearest, len(source.sentences)), dim=-1).indices
        )
        return [[_widened(source.sentences, index) for index in row] for row in nearest.tolist()]

    def embed(self, sentences: Sequence[str]) -> Tensor:
        """Unit embeddings [sentence, feature]: the mean of the last layer over the tokens, in batches of similar length."""
        if not sentences:
            return torch.zeros(0, self.embed_model.config.hidden_size)
        found: list[Tensor] = [torch.empty(0)] * len(sentences)
        for places in _batches([len(sentence) for sentence in sentences], 4 * self.settings.batch):
            words = _encode(self.embed_tokenizer, [sentences[place] for place in places], 512).to(self.device)
            states = self.embed_model(**words).last_hidden_state.float()
            mask = words["attention_mask"].unsqueeze(-1).float()
            means = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            for place, mean in zip(places, torch.nn.functional.normalize(means, dim=-1).cpu(), strict=True):
                found[place] = mean
        return torch.stack(found)

    def log_likelihoods(self, questions: Sequence[tuple[str, str]]) -> Tensor:
        """BARTScore of each (passage, sentence): the mean log-likelihood of the sentence's tokens; equal pairs once."""
        different = list(dict.fromkeys(questions))
        values: dict[tuple[str, str], float] = {}
        for places in _batches([len(passage) + len(sentence) for passage, sentence in different], self.settings.batch):
            pairs = [different[place] for place in places]
            given = _encode(self.tokenizer, [passage for passage, _ in pairs], self.settings.max_tokens).to(self.device)
            wanted = _encode(self.tokenizer, [sentence for _, sentence in pairs], self.settings.max_tokens).to(
                self.device
            )
            labels, mask = wanted["input_ids"], wanted["attention_mask"].bool()
            logits = self.model(
                input_ids=given["input_ids"],
                attention_mask=given["attention_mask"],
                labels=labels.masked_fill(~mask, -100),
            ).logits.float()
            tokens = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
            means = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1)
            values.update(zip(pairs, means.tolist(), strict=True))
        return torch.tensor([values[question] for question in questions])

    def _means(self, best: Tensor, counts: Sequence[int]) -> list[float | None]:
        groups = best.split(list(counts)) if len(best) else [best] * len(counts)
        return [
            self.settings.empty_score if not count else float(group.mean()) if group.isfinite().all() else None
            for group, count in zip(groups, counts, strict=True)
        ]


def _widened(sentences: Sequence[str], index: int) -> str:
    return " ".join(sentences[index - 1 : index + 1] if index else sentences[:2])


def _maximum(values: Tensor, owners: Sequence[int], count: int) -> Tensor:
    best = torch.full((count,), -torch.inf)
    return best.scatter_reduce(0, torch.tensor(owners, dtype=torch.long), values, "amax") if owners else best


def _batches(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Places in order of length, `size` at a time, so that little is padded."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [order[start : start + size] for start in range(0, len(order), size)]


def _encode(tokenizer: Any, texts: list[str], limit: int) -> Any:
    return tokenizer(texts, max_length=limit, truncation=True, padding=True, return_tensors="pt")


def _device(name: str) -> torch.device:
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def _load(name: str, kind: str, device: torch.device) -> tuple[Any, Any]:
    transformers = require("transformers", extra="tasks")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        model = getattr(transformers, kind).from_pretrained(name)
    except (OSError, ValueError) as error:
        raise RovrlError(
            f"the model {name!r} could not be loaded ({str(error).splitlines()[0]}): give a directory that holds it, or "
            "connect to the Hub once so that it is cached"
        ) from None
    return tokenizer, model.to(device).eval()
