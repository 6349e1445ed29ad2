"""Parquet that unpacks to far more than it says: texts are kept once and repeated by number, equal values by their count.

What a file says of its own size counts a text once, however many rows repeat it. So the longest text that rows can repeat is
looked up, and as many rows are read at once as fit; what has been unpacked is counted as it comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rovrl.errors import require

pa = require("pyarrow", extra="report")
pc = require("pyarrow.compute", extra="report")

AT_ONCE = 2**26
"""Bytes that one batch may unpack to."""
MOST_NESTED, SUSPICIOUS = 2**32, 1000
"""A row group whose lists unpack to more bytes than this, and to so many times what is stored, is a bomb."""


def rows_at_once(path: Path, metadata: Any, wanted: list[str] | None, size: int) -> int:
    """How many rows of a Parquet file can be read at once, at most `size`; a ValueError for lists that no memory holds."""
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        for column in _columns(group, wanted):
            most = min(size, group.num_rows)
            per_row = column.num_values / max(group.num_rows, 1)
            _check_lists(column, group.num_rows)
            if column.physical_type != "BYTE_ARRAY" or not column.has_dictionary_page:
                continue
            if most * per_row * column.total_uncompressed_size > AT_ONCE:  # else no text can be too long
                longest = _longest(path, k, column.path_in_schema)
                size = max(1, min(size, int(AT_ONCE / max(longest * per_row, 1))))
    return size


def counted(batches: Iterable[Any], most: int) -> Iterator[Any]:
    """The batches of a file; a ValueError as soon as they have unpacked to more than `most` bytes."""
    total = 0
    for batch in batches:
        total += sum(unpacked(column) for column in batch.columns)
        if total > most:
            raise ValueError(f"it unpacks to more than {most / 2**30:,.3g} GB: split it")
        yield batch


def _columns(group: Any, wanted: list[str] | None) -> Iterator[Any]:
    for k in range(group.num_columns):
        column = group.column(k)
        if wanted is None or column.path_in_schema.split(".")[0] in wanted:
            yield column


def _check_lists(column: Any, rows: int) -> None:
    unpacked = 8 * column.num_values
    if column.num_values > rows and unpacked > max(MOST_NESTED, SUSPICIOUS * column.total_uncompressed_size):
        raise ValueError(f"a column of lists unpacks to {unpacked / 2**30:,.0f} GB, a thousand times what is stored")


def _longest(path: Path, group: int, column: str) -> int:
    """Bytes of the longest text among those that the rows of a row group repeat; only the head of the column is read."""
    parquet = require("pyarrow.parquet", extra="report")
    with parquet.ParquetFile(path, read_dictionary=[column], pre_buffer=False, buffer_size=2**17) as file:
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=[column]):
            lengths = [pc.max(pc.binary_length(texts)).as_py() or 0 for texts in _dictionaries(batch.column(0))]
            return max(lengths, default=AT_ONCE)
    return 0


def _dictionaries(column: Any) -> Iterator[Any]:
    """The texts that are repeated, wherever in a column they are nested."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield column.dictionary
    elif pa.types.is_struct(kind):
        for k in range(kind.num_fields):
            yield from _dictionaries(column.field(k))
    elif pa.types.is_map(kind):
        yield from _dictionaries(column.keys)
        yield from _dictionaries(column.items)
    elif pa.types.is_nested(kind):
        yield from _dictionaries(column.values)


def unpacked(column: Any) -> int:
    """Bytes of a column once nothing is kept only once."""
    if not pa.types.is_dictionary(column.type) or pa.types.is_fixed_size_binary(column.type.value_type):
        return column.nbytes
    try:
        lengths = pc.binary_length(column.dictionary)
    except pa.ArrowNotImplementedError:  # numbers
        return 8 * len(column)
    return pc.sum(lengths.take(column.indices)).as_py() or 0
