"""Sentences of a text, by rules that need no data files and stay linear in its length."""

from __future__ import annotations

import re
from collections.abc import Callable

from rovrl.errors import RovrlError, require

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
        _add(sentences, text[start : end.end()])
        start = end.end()
    _add(sentences, text[start:])
    return sentences


def by_pysbd(text: str) -> list[str]:
    """pysbd's sentences: finer rules, about a hundred times slower, so paragraph by paragraph."""
    pysbd = require("pysbd", extra="tasks")
    splitter = pysbd.Segmenter(language="en", clean=False)
    sentences: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in splitter.segment(paragraph):
            _add(sentences, sentence)
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


def _add(sentences: list[str], piece: str) -> None:
    piece = " ".join(piece.split())
    if piece:
        sentences.append(piece)
