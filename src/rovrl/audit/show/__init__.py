"""An audit for a reader: the terminal, JSON, and one HTML page."""
