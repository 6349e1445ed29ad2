"""`python -m rovrl_paper.fault_matrix`: the fault matrix, printed or written into a page."""

from rovrl_paper.fault_matrix.command import main

raise SystemExit(main())
