"""One module per figure: TITLE and draw(run) -> Figure."""
