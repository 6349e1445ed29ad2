"""Numbers -> findings with reason codes, and what a group can certify."""
