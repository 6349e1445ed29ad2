"""All mutants, in the order of the data's way: statistics, faults, learning, guarantees, published tables, engines."""

from mutation.table.engines import ENGINES
from mutation.table.faults import FAULTS
from mutation.table.guarantees import GUARANTEES
from mutation.table.learning import LEARNING
from mutation.table.published import PUBLISHED
from mutation.table.sharper import SHARPER
from mutation.table.statistics import STATISTICS

TABLE = (*STATISTICS, *FAULTS, *LEARNING, *GUARANTEES, *SHARPER, *PUBLISHED, *ENGINES)
