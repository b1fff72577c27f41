"""The plan: which cells a table or a figure is made of, the rows of the paper first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from permll.bench.jobs import FIRST_DRAW, Cell, Named, Part, folder_name, spelled
from permll.bench.methods import Contestant, changes_of, contestants, paper_first
from permll.bench.real_noise import changes_for, name_of
from permll.bench.settings import Column, check_tier, chosen_columns, table1_columns
from permll.methods import find_method
from permll.report.tables.titles import REAL
from permll.training.recipe import Recipe
from permll.training.recipe_files import load_recipe, resolve_recipe
from permll.utils.messages import did_you_mean

WHAT = ("table1", "table2", "figure3", "all")
SEEDS = (1, 2, 3)
OUT = Path("runs") / "bench"
# Figure 3 in the paper's terms: η multiplies the gradient of a batch's mean, m is the given label's initial weight.
ETAS = tuple(1.5 * 2**k for k in range(10))  # 1.5 to 768
MS = (0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85, 0.95)
FIGURE_NOISE = "sym-60"
PLANNED = {"method.name", "training.seed", "data.source", "data.noise", "data.noise_seed", "data.split_seed"}


@dataclass(frozen=True)
class Plan:
    """What to train, and what not.

    Args:
        what: ``"table1"``, ``"table2"``, ``"figure3"`` or ``"all"``.
        tier: of all cells.
        out: the folder of everything.
        cells: in the order in which they are trained.
        left_out: sentences about what is not in the plan and why.
    """

    what: str
    tier: str
    out: Path
    cells: tuple[Cell, ...]
    left_out: tuple[str, ...] = ()


def plan(
    what: str = "table1",
    *,
    tier: str = "mini",
    methods: Iterable[str] = (),
    noise: Iterable[str] = (),
    seeds: Iterable[int] = SEEDS,
    out: Path | str = OUT,
    root: Path | str | None = None,
    data: Iterable[Path | str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the cells of a table or a figure.

    Args:
        what: ``"table1"``, ``"table2"``, ``"figure3"`` or ``"all"``.
        tier: ``"tiny"``, ``"mini"``, ``"lite"`` or ``"paper"``.
        methods: names in the registry, a variant after a hyphen (``"permll-label"``); default all. Figure 3 has PermLL.
        noise: columns of Table 1, such as ``"sym-60"`` or ``"cifar10-sym-60"``; default all that the tier has. For
            Figure 3 the first counts.
        seeds: of the cells; Figure 3 takes the first.
        out: the folder of everything.
        root: where built-in data sets are.
        data: files with real noisy labels for Table 2 below tier paper, see ``permll.bench.real_noise``.
        settings: changes in every recipe, by dotted keys.

    Examples:
        >>> grid = plan("table1", tier="mini", methods=["ce", "permll-label"], noise=["sym-60"], seeds=[1, 2])
        >>> [cell.folder.name for cell in grid.cells]
        ['sym-60-ce-1', 'sym-60-ce-2', 'sym-60-permll-label-1', 'sym-60-permll-label-2']
        >>> grid.cells[0].command
        'permll train mini/sym-60 --method ce --seed 1 --set data.noise_seed=43 --set data.split_seed=43 --out
        runs/bench/mini/sym-60-ce-1'
    """
    check_tier(tier)
    if what not in WHAT:
        raise ValueError(
            f"{what!r} is no part of the benchmark{did_you_mean(what, WHAT) or '.'} There are {', '.join(WHAT)}."
        )
    chosen, numbers = contestants(list(methods)), list(dict.fromkeys(seeds))
    columns = chosen_columns(table1_columns(tier), list(noise), tier)
    if not numbers or min(numbers) < 0:
        raise ValueError(f"seeds must be whole numbers from 0 up, at least one; got {numbers}.")
    for key in PLANNED & (settings or {}).keys():
        raise ValueError(f"{key} is what the plan itself varies: leave it out of the settings.")
    make = _Maker(tier, Path(out), {} if root is None else {"data.root": str(root)}, settings or {})
    if what in ("table1", "all"):
        make.table("table1", columns, chosen, numbers)
    if what in ("table2", "all"):
        make.table2(chosen, numbers, [Path(one) for one in data])
    if what in ("figure3", "all"):
        make.figure3(columns, numbers[0])
    return Plan(what, tier, Path(out), tuple(make.cells), tuple(make.left_out))


class _Maker:
    """Makes cells and keeps them, with what had to be left out."""

    def __init__(self, tier: str, out: Path, common: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.tier, self.out, self.common, self.settings = tier, out, common, settings
        self.cells: list[Cell] = []
        self.left_out: list[str] = []

    def table(
        self,
        part: Part,
        columns: Sequence[Column],
        methods: Sequence[Contestant],
        seeds: Sequence[int],
        source: Path | None = None,
    ) -> None:
        """Add methods by columns by seeds."""
        for method, variant in paper_first(part, methods):
            for column in columns:
                cells = []
                for seed in seeds:
                    own = changes_for(source, self.out, seed) if source else self.common
                    special = {**own, **changes_of(method, variant, self.tier)}
                    cells.append(self._cell(part, column, method, variant, seed, special, source))
                lacks = _lacks(cells[0])
                if lacks:
                    self.left_out.append(f"{spelled(method, variant)} is left out on {column.data}: {lacks}.")
                else:
                    self.cells += cells

    def table2(self, methods: Sequence[Contestant], seeds: Sequence[int], files: Sequence[Path]) -> None:
        """Add Clothing1M at tier paper, and files of real noisy labels elsewhere."""
        if self.tier == "paper":
            column = Column("clothing1m", REAL, "paper/clothing1m", f"clothing1m-{REAL}")
            return self.table("table2", [column], methods, seeds)
        for file in files:
            column = Column(name_of(file), REAL, "auto/default", f"{name_of(file)}-{REAL}")
            self.table("table2", [column], methods, seeds, file)
        if not files:
            self.left_out.append(
                "Table 2 below tier paper takes files of real noisy labels: give them, --data labelme.npz --data "
                "trec_rules.npz."
            )
        return None

    def figure3(self, columns: Sequence[Column], seed: int) -> None:
        """Add PermLL with every η and m, without the warm-up that the paper does not have."""
        column = next((one for one in columns if one.noise == FIGURE_NOISE), columns[0])
        if "correct_after" in _frame(column.frame, "permll").method.settings:
            self.left_out.append(
                f"Figure 3 needs the step of α itself, and tier {self.tier} sets correct_after instead."
            )
            return
        batch = resolve_recipe(_frame(column.frame, "permll"), self.settings).training.resolved_batch_size
        for m in MS:
            for eta in ETAS:
                changes = {"method.init": m, "method.lr": eta / batch, "method.warm_up": 0}
                variant = f"m{m:g}-eta{eta:g}"
                self.cells.append(
                    self._cell("figure3", column, "permll", variant, seed, {**self.common, **changes}, None)
                )

    def _cell(
        self,
        part: Part,
        column: Column,
        method: str,
        variant: str,
        seed: int,
        special: Mapping[str, Any],
        source: Path | None,
    ) -> Cell:
        draws = {f"data.{what}_seed": FIRST_DRAW + seed for what in ("noise", "split")}
        changes = {"method.name": method, "training.seed": seed, **draws, **special, **self.settings}
        recipe = resolve_recipe(_frame(column.frame, method), changes)
        top = self.out / "figure3" if part == "figure3" else self.out
        folder = top / self.tier / folder_name(Named(column.name, method, variant, seed))
        return Cell(
            part,
            self.tier,
            column.data,
            column.noise,
            method,
            variant,
            seed,
            column.frame,
            changes,
            recipe,
            folder,
            source,
        )


def _lacks(cell: Cell) -> str:
    """Say what a cell would need and its recipe does not have."""
    settings = cell.recipe.method.settings
    if "trusted" in find_method(cell.method).needs and cell.recipe.data.trusted is None:
        return "it needs rows known to be right (data.trusted), and there are none"
    if settings.get("on") == "label" and settings.get("lr") is None:
        return f"on the label it needs a step of its own (method.lr), and tier {cell.tier} has none"
    return ""


@cache
def _frame(name: str, method: str) -> Recipe:
    """Return a recipe with a method: reading its files again for every cell would take a large plan seconds."""
    return load_recipe(name, {"method.name": method})
