"""How it is shown: pages, figures and tables of runs, without torch."""
