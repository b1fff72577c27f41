"""Plan of a benchmark: the jobs of a table or a figure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

from permll.bench.jobs import NOISE_SEED_OFFSET, Job, PreparedData, format_job_name, format_method
from permll.bench.methods import MethodVariant, paper_methods_first, select_methods, variant_overrides
from permll.bench.real_noise import source_overrides
from permll.bench.settings import Setting, check_tier, select_settings, table1_settings, table2_settings
from permll.methods import find_method
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe, resolve_recipe
from permll.utils.messages import unknown_name

EXPERIMENTS = (*get_args(PreparedData), "all")
DEFAULT_SEEDS = (1, 2, 3)
DEFAULT_OUT = Path("runs") / "bench"
# Figure 3 in the paper's terms: η multiplies the gradient of a batch's mean, m is the given label's initial weight.
ETAS = tuple(1.5 * 2**k for k in range(10))  # 1.5 to 768
MS = (0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85, 0.95)
FIGURE3_NOISE = "sym-60"
NO_FILES = "Table 2 below tier paper needs files of real noisy labels: --data labelme.npz --data trec_rules.npz."
PLANNED_KEYS = {"method.name", "training.seed", "data.source", "data.noise", "data.noise_seed", "data.split_seed"}


@dataclass(frozen=True)
class Plan:
    """Jobs of a benchmark.

    Args:
        experiment: ``"table1"``, ``"table2"``, ``"figure3"`` or ``"all"``.
        tier: size of all jobs.
        out: output folder.
        jobs: jobs in the order in which they run.
        skipped: messages about methods and experiments that cannot run, with the reason.
    """

    experiment: str
    tier: str
    out: Path
    jobs: tuple[Job, ...]
    skipped: tuple[str, ...] = ()


def plan(
    experiment: str = "table1",
    *,
    tier: str = "mini",
    methods: Iterable[str] = (),
    noise: Iterable[str] = (),
    seeds: Iterable[int] = DEFAULT_SEEDS,
    out: Path | str = DEFAULT_OUT,
    root: Path | str | None = None,
    data: Iterable[Path | str] = (),
    overrides: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the jobs of a table or a figure; the methods of the paper's table come first.

    Args:
        experiment: ``"table1"``, ``"table2"``, ``"figure3"`` or ``"all"``.
        tier: ``"tiny"``, ``"mini"``, ``"lite"`` or ``"paper"``.
        methods: names in the registry, with a variant as suffix (``"permll-label"``); default all. Figure 3 is always
            PermLL.
        noise: settings of Table 1, such as ``"sym-60"`` or ``"cifar10-sym-60"``; default all of the tier. Figure 3
            takes ``"sym-60"`` if it is among them, else the first.
        seeds: seeds of the jobs; Figure 3 takes the first.
        out: output folder.
        root: folder of built-in data sets.
        data: files with real noisy labels for Table 2 below tier paper, see ``permll.bench.real_noise``.
        overrides: changed recipe values of all jobs, by dotted key.

    Examples:
        >>> grid = plan("table1", tier="mini", methods=["ce", "permll-label"], noise=["sym-60"], seeds=[1, 2])
        >>> [job.folder.name for job in grid.jobs]
        ['sym-60-ce-1', 'sym-60-ce-2', 'sym-60-permll-label-1', 'sym-60-permll-label-2']
        >>> grid.jobs[0].command
        'permll train mini/sym-60 --method ce --seed 1 --set data.noise_seed=43 --set data.split_seed=43 --out
        runs/bench/mini/sym-60-ce-1'
    """
    check_tier(tier)
    if experiment not in EXPERIMENTS:
        raise ValueError(unknown_name("experiment", experiment, EXPERIMENTS))
    selected, unique_seeds, data = select_methods(list(methods)), list(dict.fromkeys(seeds)), list(data)
    settings = select_settings(table1_settings(tier), list(noise), tier)
    if not unique_seeds or min(unique_seeds) < 0:
        raise ValueError(f"seeds must contain at least one integer >= 0 and no negative one; got {unique_seeds}.")
    for key in PLANNED_KEYS & (overrides or {}).keys():
        raise ValueError(f"{key} is set by the plan and cannot be overridden.")
    builder = _PlanBuilder(tier, Path(out), {} if root is None else {"data.root": str(root)}, overrides or {})
    if experiment in ("table1", "all"):
        builder.add_table("table1", settings, selected, unique_seeds)
    if experiment in ("table2", "all"):
        for setting in table2_settings(tier, map(Path, data)):
            builder.add_table("table2", [setting], selected, unique_seeds)
        if tier != "paper" and not data:
            builder.skipped.append(NO_FILES)
    if experiment in ("figure3", "all"):
        builder.add_figure3(settings, unique_seeds[0])
    return Plan(experiment, tier, Path(out), tuple(builder.jobs), tuple(builder.skipped))


@dataclass
class _PlanBuilder:
    """Collects the jobs of a plan and the messages about skipped ones."""

    tier: str
    out: Path
    data_overrides: Mapping[str, Any]  # of jobs on built-in data sets
    overrides: Mapping[str, Any]  # the user's, which take precedence
    jobs: list[Job] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add_table(
        self,
        experiment: PreparedData,
        settings: Sequence[Setting],
        methods: Sequence[MethodVariant],
        seeds: Sequence[int],
    ) -> None:
        """Add all combinations of methods, settings and seeds."""
        for method, variant in paper_methods_first(experiment, methods):
            changes = variant_overrides(method, variant, self.tier)
            for setting in settings:
                jobs = [self._job(experiment, setting, method, variant, seed, changes) for seed in seeds]
                reason = _missing_requirement(jobs[0])
                if reason:
                    self.skipped.append(f"{format_method(method, variant)} is skipped on {setting.data}: {reason}.")
                else:
                    self.jobs += jobs

    def add_figure3(self, settings: Sequence[Setting], seed: int) -> None:
        """Add PermLL with every η and m, without warm-up as in the paper."""
        setting = next((setting for setting in settings if setting.noise == FIGURE3_NOISE), settings[0])
        recipe = _load_recipe(setting.recipe_name, "permll")
        if "correct_after" in recipe.method.settings:
            self.skipped.append(f"Figure 3 is skipped: it varies method.lr, but tier {self.tier} sets correct_after.")
            return
        batch_size = resolve_recipe(recipe, self.overrides).training.resolved_batch_size
        for m, eta in product(MS, ETAS):
            changes = {"method.init": m, "method.lr": eta / batch_size, "method.warm_up": 0}
            self.jobs.append(self._job("figure3", setting, "permll", f"m{m:g}-eta{eta:g}", seed, changes))

    def _job(
        self,
        experiment: PreparedData,
        setting: Setting,
        method: str,
        variant: str,
        seed: int,
        changes: Mapping[str, Any],
    ) -> Job:
        data = source_overrides(setting.source, self.out, seed) if setting.source else self.data_overrides
        draws = {f"data.{draw}_seed": NOISE_SEED_OFFSET + seed for draw in ("noise", "split")}
        overrides = {"method.name": method, "training.seed": seed, **draws, **data, **changes, **self.overrides}
        parent = self.out / "figure3" if experiment == "figure3" else self.out
        return Job(
            experiment=experiment,
            tier=self.tier,
            data=setting.data,
            noise=setting.noise,
            method=method,
            variant=variant,
            seed=seed,
            recipe_name=setting.recipe_name,
            overrides=overrides,
            recipe=resolve_recipe(_load_recipe(setting.recipe_name, method), overrides),
            folder=parent / self.tier / format_job_name(setting.name, method, variant, seed),
            source=setting.source,
        )


def _missing_requirement(job: Job) -> str:
    """Return a requirement of the method that the recipe does not meet, or an empty string."""
    settings = job.recipe.method.settings
    if "trusted" in find_method(job.method).needs and job.recipe.data.trusted is None:
        return "it needs samples with verified labels (data.trusted)"
    if settings.get("on") == "label" and settings.get("lr") is None:
        return f"on the label it needs method.lr, which tier {job.tier} does not set"
    return ""


@cache
def _load_recipe(name: str, method: str) -> Recipe:
    """Load a recipe once per method: a large plan would spend seconds on reading files."""
    return load_recipe(name, {"method.name": method})
