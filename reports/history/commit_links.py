"""Where the commits of a change are read: at the host that a run says it was pushed to."""

from __future__ import annotations

from collections.abc import Mapping

# How each host names the commits after one and up to another, as its documentation has it:
# GitHub "Comparing commits", GitLab "Compare revisions", Forgejo the same as GitHub.
_PATHS = {"github.com": "compare", "gitlab.com": "-/compare", "codeberg.org": "compare"}


def range_url(repositories: Mapping[str, str], after: str | None, until: str | None) -> str:
    """The address of the commits between two; empty where a run does not say, or is elsewhere.

    `repositories` are the places that runs recorded, "host/owner/name", by commit.
    """
    place = repositories.get(until or "")
    if not after or not until or place is None or repositories.get(after) != place:
        return ""
    path = _PATHS.get(place.partition("/")[0])
    return f"https://{place}/{path}/{after}...{until}" if path else ""
