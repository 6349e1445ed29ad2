"""GovReport: summaries of long reports, rewarded by LongDocFACTScore and evaluated by ROUGE (`sec:summarization`).

    from rovrl.tasks.govreport import govreport_reward    # TRL: reward_funcs=[govreport_reward]; the dataset has `report`
    reward.custom_reward_function.path=pkg://rovrl.tasks.govreport    # verl: name=compute_score

The reward's models are set by `configure(...)` or by the environment: ROVRL_FACT_EMBEDDER, ROVRL_FACT_LIKELIHOOD,
ROVRL_FACT_SPLITTER, ROVRL_FACT_DEVICE; or they are served elsewhere (`rovrl.tasks.fact_server`): ROVRL_FACT_URL.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from rovrl.errors import require
from rovrl.tasks.chat import as_text
from rovrl.tasks.longdocfact import FactSettings, LongDocFACTScore

if TYPE_CHECKING:
    from rovrl.tasks.remote import HttpReward

PROMPT = "Summarize the following government report.\n\n{report}\n\nSummary:"
PROMPT_WORDS = 10_000
"""Words of a report that are shown to the model (about 13,000 tokens); the reward always reads the whole report."""

URL_VARIABLE = "ROVRL_FACT_URL"
_scorer: LongDocFACTScore | None = None
_scoring = Lock()


def rouge(summary: object, reference: object) -> dict[str, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L F1 of `summary` against `reference`, as `rouge-score` defines them, without stemming.

    ROUGE-L's longest common subsequence is computed bit-parallel: the same number, and a summary of 100,000 words costs
    seconds instead of gigabytes.
    """
    package = require("rouge_score.rouge_scorer", extra="tasks")
    tokenizer = require("rouge_score.tokenizers", extra="tasks").DefaultTokenizer(False)
    given, wanted = as_text(summary), as_text(reference)
    overlaps = package.RougeScorer(["rouge1", "rouge2"], tokenizer=tokenizer).score(wanted, given)
    words, gold = tokenizer.tokenize(given), tokenizer.tokenize(wanted)
    longest = common_subsequence(words, gold)
    return {
        "rouge1": float(overlaps["rouge1"].fmeasure),
        "rouge2": float(overlaps["rouge2"].fmeasure),
        "rougeL": 2 * longest / (len(words) + len(gold)) if longest else 0.0,
    }


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, bit-parallel (Hyyrö 2004): a row of the table is one whole number."""
    places: dict[str, int] = {}
    for index, word in enumerate(second):
        places[word] = places.get(word, 0) | 1 << index
    everywhere = (1 << len(second)) - 1
    row = everywhere
    for word in first:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & everywhere
    return len(second) - row.bit_count()


def configure(settings: FactSettings | None = None) -> LongDocFACTScore:
    """Loads the reward's models, replacing those of an earlier call; without settings, those of the environment."""
    global _scorer
    with _scoring:
        _scorer = LongDocFACTScore(settings or settings_from_environment())
        return _scorer


def settings_from_environment() -> FactSettings:
    """The authors' settings, with what the ROVRL_FACT_* variables change."""
    names = ("embedder", "likelihood", "splitter", "device")
    chosen = {name: os.environ.get(f"ROVRL_FACT_{name.upper()}") for name in names}
    return replace(FactSettings(), **{name: value for name, value in chosen.items() if value})


def factuality(reports: Sequence[object], summaries: Sequence[object], **columns: Any) -> list[float | None]:
    """LongDocFACTScore of each summary given its whole report; the models are loaded at the first call.

    With ROVRL_FACT_URL a server computes it, and a score that fails is None.
    """
    if client := _client():
        return client(reports, summaries, **columns)
    return [*(_scorer or configure())(reports, summaries)]


def _client() -> HttpReward | None:
    url = os.environ.get(URL_VARIABLE)
    if not url:
        return None
    from rovrl.tasks.reward_model import served

    return served(url)


def govreport_reward(
    prompts: Sequence[object] = (), completions: Sequence[object] = (), report: Sequence[object] = (), **columns: Any
) -> list[float | None]:
    """The rewards of a batch, as TRL calls it; the dataset's column `report` holds the whole documents."""
    return factuality(report, completions, **columns)


async def compute_score(
    data_source: object, solution_str: str, ground_truth: object, extra_info: Any = None, **kwargs: Any
) -> float | dict[str, Any]:
    """The reward of one response, as verl awaits it; `extra_info["report"]` holds the document, `ground_truth` the reference.

    With ROVRL_FACT_URL, responses that are scored at the same time share a request, and what it took is returned beside the
    score.
    """
    if not extra_info or "report" not in extra_info:
        raise ValueError(
            'extra_info["report"] is missing: make the parquet file with `python -m rovrl.tasks.prepare govreport`'
        )
    report = extra_info["report"]
    if client := _client():
        return await client.one_told(report, solution_str)
    found = (await asyncio.to_thread(factuality, [report], [solution_str]))[0]
    return math.nan if found is None else found


def prompt(report: str) -> list[dict[str, str]]:
    """The conversation that asks for a summary of the report's first `PROMPT_WORDS` words."""
    words = report.split(" ")
    shown = report if len(words) <= PROMPT_WORDS else " ".join(words[:PROMPT_WORDS])
    return [{"role": "user", "content": PROMPT.format(report=shown)}]
