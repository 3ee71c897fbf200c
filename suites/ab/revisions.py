"""Revisions of a git repository: what a name means, and their files in a folder of their own.

Nothing of the repository changes but its list of worktrees, and that only until they are removed.
The working tree is a revision too: its files, those git does not ignore, become a commit that no
branch has, made with an index of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

# What a git that started this process told it of another folder.
_OF_ANOTHER_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_NOBODY = {
    f"GIT_{who}_{what}": text
    for who in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "attnbench"), ("EMAIL", "attnbench@localhost"))
}
WORKING_TREE = "the working tree"


class RevisionMistake(ValueError):
    """A folder is no repository, or a name no revision of it; the message says what would do."""


class Repository:
    """A git repository: `top` is its folder, `inside` where in it one was when naming it."""

    def __init__(self, folder: Path) -> None:
        """The repository that `folder` lies in.

        Raises:
            RevisionMistake: it lies in none, or git is not there.
        """
        try:
            top = git(folder, "rev-parse", "--show-toplevel")
        except (GitFailed, OSError) as error:
            raise RevisionMistake(f"{folder} is in no git repository: {error}") from None
        self.top = Path(top)
        self.inside = folder.resolve().relative_to(self.top.resolve())

    def commit(self, name: str) -> str:
        """The commit that `name` means: a branch, a tag, HEAD~1, a beginning of a hash.

        Raises:
            RevisionMistake: it means none.
        """
        wanted = ("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return git(self.top, "rev-parse", *wanted)
        except GitFailed:
            shallow = git(self.top, "rev-parse", "--is-shallow-repository") == "true"
            remedy = "git fetch --unshallow" if shallow else "git log --oneline"
            raise RevisionMistake(
                f'"{name}" is no revision of {self.top}: `{remedy}` may help'
            ) from None

    def snapshot(self) -> str:
        """The working tree as a commit: HEAD itself where nothing differs from it."""
        head = self.commit("HEAD")
        with tempfile.TemporaryDirectory(prefix="attnbench-") as folder:
            own = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            index = Path(git(self.top, "rev-parse", "--git-path", "index"))
            if (self.top / index).is_file():
                # With its file times: only what changed is read again.
                shutil.copy(self.top / index, own["GIT_INDEX_FILE"])
            git(self.top, "add", "--all", variables=own)
            tree = git(self.top, "write-tree", variables=own)
        if tree == git(self.top, "rev-parse", f"{head}^{{tree}}"):
            return head
        message = ("-p", head, "-m", f"{WORKING_TREE} on {head[:7]}")
        # The same files are the same commit, whenever they are asked for.
        date = git(self.top, "show", "--no-patch", "--format=%cI", head)
        when = {f"GIT_{who}_DATE": date for who in ("AUTHOR", "COMMITTER")}
        return git(self.top, "commit-tree", tree, *message, variables=_NOBODY | when)

    def add_tree(self, folder: Path, commit: str) -> None:
        """Put the files of `commit` into `folder`, which a killed process may have left there."""
        self.remove_tree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        git(self.top, "worktree", "add", "--detach", "--force", str(folder), commit)

    def remove_tree(self, folder: Path) -> None:
        """Take the folder away, and its entry in the list of worktrees."""
        if str(folder.resolve()) not in self._trees() and not folder.exists():
            return
        try:
            git(self.top, "worktree", "remove", "--force", "--force", str(folder))
        except GitFailed:
            # Half made, or its folder is gone: what is left of it is the entry.
            shutil.rmtree(folder, ignore_errors=True)
            git(self.top, "worktree", "prune")

    def _trees(self) -> set[str]:
        listed = git(self.top, "worktree", "list", "--porcelain").splitlines()
        return {line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")}


class GitFailed(RuntimeError):
    """A git command failed; the message is what git says is fatal, and its last line."""


def git(folder: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    """What a git command in `folder` printed.

    It has a session of its own, so that Ctrl-C does not stop it half way, and runs no hooks.

    Raises:
        GitFailed: it ended with another code than 0.
    """
    environment = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_GIT}
    done = subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
        cwd=folder,
        env=environment | dict(variables or {}),
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise GitFailed(_told(done.stderr.strip() or f"exit code {done.returncode}"))
    return done.stdout.strip()


def _told(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    fatal = [line for line in lines[:-1] if line.startswith("fatal: ")]
    # After that the last line may be a remedy, as of files that another user owns.
    return ": ".join([*fatal[:1], lines[-1]])
