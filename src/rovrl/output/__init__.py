"""What every command needs to show and keep its results: intervals, files, progress, HTML, charts."""
