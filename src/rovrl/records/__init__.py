"""What a run saves per step, and how it is read again: one Parquet file per finished step.

    records/step_000001.parquet, records/step_000002.parquet, ...

A *step* is one generation of responses; its *updates* are the optimizer steps that use them. One row is one response at
one update position. A file appears whole or not at all, so a killed run leaves every finished step readable.
"""

from rovrl.records.files import (
    COLUMNS,
    FORMAT,
    SCHEMA,
    RecordWriter,
    is_record_set,
    keep_steps_up_to,
    read_batches,
    read_notes,
    read_settings,
    read_steps,
    steps_in,
)

__all__ = [
    "COLUMNS",
    "FORMAT",
    "SCHEMA",
    "RecordWriter",
    "is_record_set",
    "keep_steps_up_to",
    "read_batches",
    "read_notes",
    "read_settings",
    "read_steps",
    "steps_in",
]
