"""The columns of a record, in one place."""

from __future__ import annotations

import re

from rovrl.errors import require

pa = require("pyarrow", extra="train")

FORMAT = 1
SCHEMA = pa.schema(
    [
        pa.field("step", pa.int64(), nullable=False),  # which generation, from 1
        pa.field("update", pa.int32(), nullable=False),  # optimizer step within it, from 0
        pa.field("group", pa.string(), nullable=False),  # the same for the responses to one prompt; unique in the step
        pa.field("response", pa.int32(), nullable=False),  # index within the group
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("completion", pa.string(), nullable=False),
        pa.field("reward", pa.float64()),  # as trained on (after contamination); null = not scored
        pa.field("advantage", pa.float64(), nullable=False),
        pa.field("reference", pa.float64()),  # the group's reference; null = the group had none
        pa.field("length", pa.int32(), nullable=False),  # valid tokens
        pa.field("clip_low", pa.float64(), nullable=False),  # the weight is clipped to [1 - low, 1 + high]
        pa.field("clip_high", pa.float64(), nullable=False),
        pa.field("log_ratios", pa.list_(pa.float32())),  # of the valid tokens, in order; null = not recorded
        pa.field("contamination", pa.string(), nullable=False),  # what was planted; "" = clean
        pa.field("method", pa.string(), nullable=False),
    ]
)
COLUMNS: tuple[str, ...] = tuple(SCHEMA.names)
ROWS_PER_GROUP = 1024
"""Rows that a reader needs in memory at a time."""
FILE_NAME = re.compile(r"step_(\d+)\.parquet")
CALLS = "reward_calls"
"""The note of a step that says what asking servers for its rewards took, by metric name."""
