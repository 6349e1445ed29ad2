"""`python -m rovrl.audit.faults`: the fault matrix, printed or written into a page."""

from rovrl.audit.faults.command import main

raise SystemExit(main())
