"""The trend page: each cell over the runs of one machine, and where its level changed."""
