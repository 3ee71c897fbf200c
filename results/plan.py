"""A plan of launches: how many for what, what they must show, and whether they can at all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from results.inference import launches_needed, smallest_p


class PlanRefused(ValueError):
    """The launches cannot show what is asked of them; the message says how many would."""


@dataclass(frozen=True)
class Plan:
    """How many launches a side there are for what, and what they must show.

    Attributes:
        screen: launches a side that look for suspects; 0: nothing is screened, all are suspects.
        confirm: launches a side that judge the suspects.
        alpha: the chance that a run without any change names a cell.
        suspect_p, suspect_ratio: what makes a cell a suspect.
        suite_p, suite_ratio: what makes the suite slower as a whole.
        suite_cells: with fewer cells "the suite" says no more than they do.
        seen: a cell whose smallest visible ratio is larger stays inconclusive.
    """

    screen: int = 5
    confirm: int = 20
    alpha: float = 0.01
    suspect_p: float = 0.20
    suspect_ratio: float = 1.01
    suite_p: float = 0.005
    suite_ratio: float = 1.02
    suite_cells: int = 10
    seen: float = 1.10


def check_plan(plan: Plan, cells: int) -> None:
    """Refuse a plan by which nothing could be found, were every cell a suspect.

    Raises:
        PlanRefused: the smallest possible p is above alpha / cells, or the screen has one launch.
    """
    if plan.screen == 1:
        raise PlanRefused("1 launch a side cannot screen: its spread is unknown: give 2 or more")
    _refuse_hopeless(plan.confirm, plan.confirm, plan.alpha, cells)


def fitted(plan: Plan, base_n: int, head_n: int, cells: int) -> Plan:
    """The plan for the launches there are: two stages if they suffice, else one of all.

    Raises:
        PlanRefused: they suffice for neither.
    """
    fewer = min(base_n, head_n)
    if plan.screen and fewer - plan.screen >= launches_needed(cells, plan.alpha):
        return replace(plan, confirm=fewer - plan.screen)
    # Of unequal sides the larger one helps: a baseline of 20 needs fewer launches beside it.
    _refuse_hopeless(base_n, head_n, plan.alpha, cells)
    return replace(plan, screen=0, confirm=fewer)


def _refuse_hopeless(base_n: int, head_n: int, alpha: float, cells: int) -> None:
    fewer, goal = min(base_n, head_n), alpha / max(cells, 1)
    least = smallest_p(base_n, head_n) if fewer > 0 else 1.0
    if least <= goal:
        return
    words = f"{base_n} and {head_n} launches"
    if base_n == head_n:
        words = f"{base_n} launch{'es' * (base_n != 1)} a side"
    of = "1 cell" if cells == 1 else f"each of {cells} cells"
    needed = launches_needed(cells, alpha)
    raise PlanRefused(
        f"{words} cannot show a regression: the smallest possible p is {least:.2g}, and "
        f"{of} needs {goal:.2g}: {needed} launches a side would do"
    )
