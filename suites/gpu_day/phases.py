"""The phases of a GPU day as data: what each runs, and its share of the time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MINUTES = 8.0
"""A lent device is held for 15; what goes wrong the first time has to fit too."""
DRY_MINUTES, BRIEF_MINUTES = 3.75, 1.0
"""A dry day of no more than `BRIEF_MINUTES` has one implementation and one sweep."""
PLANNED_SHARE = 0.65
"""Of the sweep's time is planned with cells; the rest starts, tries, compiles and checks."""

_SWEEPS, _MODELS = ("sequence_length", "decode", "backward", "heads"), ("models",)
_ENOUGH_TO_SEE_S = 1.0
"""Of the checks of one implementation on a CPU, which is proven elsewhere."""
_IN_SHORT = ("naive", "chunked", "sdpa_flash")
_PAIR_OF_CPU, _PAIR_OF_GPU = ("naive", "sdpa_flash"), ("sdpa_flash", "triton_flash")


@dataclass(frozen=True)
class Step:
    """One child process of a phase; it writes its result to stdout.

    Attributes:
        name: of its files.
        command: after the Python that runs this one.
        share_s: of a day of `MINUTES`.
        fine: exit codes of work that is done, whatever it found.
        wrong: exit codes that tell of a wrong result.
        is_open_ended: it goes on as long as there is time, and keeps what it finished.
        unless: why it has nothing to measure here; None: it has.
    """

    name: str
    command: tuple[str, ...]
    share_s: float
    fine: tuple[int, ...] = (0,)
    wrong: tuple[int, ...] = ()
    is_open_ended: bool = False
    unless: str | None = None


@dataclass(frozen=True)
class Phase:
    """Steps that answer one question together."""

    name: str
    title: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Form:
    """What a day is made for: a device, so many minutes, and the folder for all it leaves."""

    folder: Path
    device: str
    minutes: float

    @property
    def is_dry(self) -> bool:
        """Every phase is gone through on a CPU, with small sizes."""
        return self.device == "cpu"

    @property
    def is_brief(self) -> bool:
        """As little as goes through every phase."""
        return self.is_dry and self.minutes <= BRIEF_MINUTES

    @property
    def names(self) -> tuple[str, ...]:
        """The implementations that are checked and measured; none named are all."""
        return () if not self.is_dry else _IN_SHORT[: 1 if self.is_brief else None]

    @property
    def scale(self) -> float:
        """How much longer than a day of `MINUTES` it is."""
        return self.minutes / MINUTES

    @property
    def runs(self) -> Path:
        """The store of the sweeps' run."""
        return self.folder / "runs"

    @property
    def models(self) -> Path:
        """The store of the models' run: a row for each would leave the sweeps no time."""
        return self.folder / "models"


def phases(form: Form) -> tuple[Phase, ...]:
    """The seven phases, the most valuable first: a day that breaks off has the rest."""
    return (
        Phase("environment", "machine and versions", _environment(form)),
        Phase("clock", "the clock held against what is known", _clock(form)),
        Phase("ceilings", "the roofs every row is held against", _ceilings(form)),
        Phase("conformance", "every implementation against float64", _conformance(form)),
        Phase("sweep", f"{', '.join((*_SWEEPS, *_MODELS))}", _sweep(form)),
        Phase("bounds", "twelve cells twice, static bounds beside them", _bounds(form)),
        Phase("report", "the page", _report(form)),
    )


def _environment(form: Form) -> tuple[Step, ...]:
    doctor = ("-m", "suites", "doctor", "--json", "--store", str(form.runs))
    return (
        Step("environment", (*_own("environment"), "--device", form.device), 5),
        # 1 is what it found amiss, which is what it is asked for.
        Step("doctor", doctor, 5, fine=(0, 1)),
    )


def _clock(form: Form) -> tuple[Step, ...]:
    return (Step("clock", (*_own("clock_test"), "--device", form.device), 20, wrong=(1,)),)


def _ceilings(form: Form) -> tuple[Step, ...]:
    command = ("-m", "suites", "ceilings", "--json", "--device", form.device)
    return (Step("ceilings", command, 30),)


def _conformance(form: Form) -> tuple[Step, ...]:
    share_s = 90.0
    command = [*_own("conformance_sample"), *form.names]
    command += ["--device", form.device, "--out", str(form.folder / "conformance")]
    command += ["--seconds", f"{0.8 * share_s * form.scale:.1f}"]
    # On a busy machine starting Python takes longer than this, and is waited for.
    command += ["--each", f"{_ENOUGH_TO_SEE_S:g}"] if form.is_dry else []
    return (Step("conformance", tuple(command), share_s, wrong=(1,), is_open_ended=True),)


def _sweep(form: Form) -> tuple[Step, ...]:
    if form.is_brief:
        return (_measured("run", _SWEEPS[:1], form.runs, 240.0, form),)
    return (
        _measured("run", _SWEEPS, form.runs, 180.0, form),
        _measured("models", _MODELS, form.models, 60.0, form),
    )


def _measured(name: str, sweeps: tuple[str, ...], store: Path, share_s: float, form: Form) -> Step:
    planned_s = PLANNED_SHARE * share_s * form.scale
    if form.is_dry:
        # A CPU is here to show that it works: a few cells of each sweep.
        planned_s = 1.0 if form.is_brief else min(8.0, planned_s / 4)
    command = ["-m", "suites", "run", *sweeps, "--device", form.device, "--store", str(store)]
    command += ["--budget", "default", "--seconds", f"{planned_s:.1f}", "--once", "--json-lines"]
    command += ["--cell-limit", f"{max(5.0, 30 * form.scale):.0f}"]
    command += ["--impl", ",".join(form.names), "--dtype", "float32"] if form.is_dry else []
    return Step(name, tuple(command), share_s, wrong=(1,), is_open_ended=True)


def _bounds(form: Form) -> tuple[Step, ...]:
    store = form.folder / "repeats"
    pair = _PAIR_OF_CPU if form.is_dry else _PAIR_OF_GPU
    repeats = ["-m", "suites", "calibrate", "--launches", "2", "--impl", ",".join(pair)]
    repeats += ["--baseline", "none", "--device", form.device, "--json"]
    repeats += ["--store", str(store), "--baselines", str(store / "baselines")]
    repeats += [word for text in _twice(form) for word in ("--problem", text)]
    static = [*_own("static_against_measured"), "--folder", str(form.folder)]
    # One kernel is enough to see that it works.
    static += ["--kernel", "triton_flash_forward", "--d_h", "64"] if form.is_dry else []
    return (
        Step("repeats", tuple(repeats), 30, wrong=(1,)),
        Step("static", tuple(static), 15),
    )


def _twice(form: Form) -> list[str]:
    """Six problems; with two implementations twelve cells."""
    dtype = "float32" if form.is_dry else "bfloat16"
    lengths = (128, 256, 512) if form.is_dry else (2048, 4096, 8192)
    heads = "B=1,H=4" if form.is_dry else "B=2,H=16"
    return [
        f"{heads},T={T},d_h={64 if form.is_dry else 128},{word},{dtype}"
        for T in lengths
        for word in ("full", "causal")
    ]


def _report(form: Form) -> tuple[Step, ...]:
    page = _page("report", form.runs, form)
    return (page,) if form.is_brief else (page, _page("models", form.models, form))


def _page(name: str, store: Path, form: Form) -> Step:
    command = ["-m", "reports", "latest", "--store", str(store), "--json"]
    command += ["--out", str(form.folder / "report")]
    return Step(name, tuple(command), 8, wrong=(1,))


def _own(module: str) -> tuple[str, ...]:
    return ("-m", f"suites.gpu_day.{module}")
