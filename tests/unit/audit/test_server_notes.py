"""The audit of records says how the server did that scored them."""

import json

import numpy as np
import pyarrow.parquet as pq

import audit_dumps
from rovrl.audit import audit
from rovrl.records.files import CALLS
from rovrl.tasks.remote.call import Tally


def recorded(folder, tallies):
    """Records whose steps were scored with these counts, as `HttpReward.metrics` names them."""
    audit_dumps.records(folder, np.random.default_rng(0).normal(size=(4 * len(tallies), 8)))
    for file, tally in zip(sorted(folder.glob("*.parquet")), tallies, strict=True):
        table = pq.read_table(file)
        calls = {f"reward_server/{name}": value for name, value in {**tally.metrics(), "breaker_open": 0.0}.items()}
        notes = json.dumps({CALLS: calls}).encode()
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"rovrl.notes": notes}), file)
    return [note.sentence for note in audit(folder).notes if note.code == "reward_server"]


def test_missing_scores_retries_and_the_slowest_step_are_told(tmp_path):
    good = Tally(asked=32, requests=1)
    good.seconds.append(0.25)
    bad = Tally(asked=32, requests=4, retries=3)
    bad.missing.update({"timeout": 4, "null": 2})
    bad.seconds.extend([1.5, 2.5])
    assert recorded(tmp_path, [good, bad]) == [
        "reward_server gave no score for 9.38% of the responses (timeout 6.25%, null 3.12%); 3 of 5 requests were sent again; "
        "the breaker was open after 0 of 2 steps; the slowest step was 2 (95 % of its requests within 2.5 s)"
    ]


def test_a_server_that_did_well_is_not_spoken_of(tmp_path):
    assert recorded(tmp_path, [Tally(asked=32, requests=1)]) == []
