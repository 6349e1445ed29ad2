"""What every command needs to show and keep its results: intervals, files, locks, progress, HTML, charts."""
