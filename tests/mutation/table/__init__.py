"""All mutants, in the order of the data's way: statistics, learning, guarantees, published tables, engines."""

from mutation.table.engines import ENGINES
from mutation.table.guarantees import GUARANTEES
from mutation.table.learning import LEARNING
from mutation.table.published import PUBLISHED
from mutation.table.sharper import SHARPER
from mutation.table.statistics import STATISTICS

TABLE = (*STATISTICS, *LEARNING, *GUARANTEES, *SHARPER, *PUBLISHED, *ENGINES)
