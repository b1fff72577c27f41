"""The plan: which cells, in which order, with which recipes."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from permll.bench import plan
from permll.bench.grid import ETAS, MS
from permll.bench.jobs import read_folder_name
from permll.cli.train import setting
from permll.methods import METHODS
from permll.training import load_recipe

NOISE = ["sym-20", "sym-40", "sym-60", "sym-80", "asym-20", "asym-40"]


def test_table_1_has_every_method_and_column_and_the_rows_of_the_paper_first() -> None:
    grid = plan("table1", tier="mini")
    assert len(grid.cells) == (len(METHODS) + 1) * 6 * 3
    assert len({cell.folder for cell in grid.cells}) == len(grid.cells)
    order = list(dict.fromkeys((cell.method, cell.variant) for cell in grid.cells))
    paper = ["ce", "bootstrap_soft", "bootstrap_hard", "gce", "sl", "forward", "joint", "pencil", "elr", "selc"]
    assert set(order[:12]) == {*((name, "") for name in paper), ("permll", ""), ("permll", "label")}
    assert [cell.noise for cell in grid.cells[:18:3]] == NOISE
    assert {cell.recipe.method.settings["on"] for cell in grid.cells if cell.variant} == {"label"}


@pytest.mark.parametrize(
    ("tier", "data", "columns"), [("tiny", ["digits"], 1), ("lite", ["cifar10", "cifar100"], 12), ("paper", None, 12)]
)
def test_the_columns_of_other_tiers(tier: str, data: list[str] | None, columns: int) -> None:
    grid = plan("table1", tier=tier, methods=["ce"], seeds=[1])
    assert len(grid.cells) == columns
    assert list(dict.fromkeys(cell.data for cell in grid.cells)) == (data or ["cifar10", "cifar100"])
    for cell in grid.cells:
        assert cell.recipe.tier == tier
        assert cell.recipe.data.source == cell.data
        kind, percent = cell.noise.split("-")
        assert cell.recipe.data.noise.removeprefix("permll:") == f"{kind}:0.{percent[0]}"


def test_a_seed_draws_noise_and_split_too() -> None:
    (cell,) = plan(tier="mini", methods=["elr"], noise=["asym-40"], seeds=[2], out="runs").cells
    seeds = {"training.seed": 2, "data.noise_seed": 44, "data.split_seed": 44}
    assert cell.recipe.hash == load_recipe("mini/asym-40", {"method.name": "elr", **seeds}).hash
    assert cell.folder == Path("runs/mini/asym-40-elr-2")


def test_the_command_of_a_cell_trains_its_recipe() -> None:
    settings = {"training.epochs": 2, "network.widths": [32], "views.padding_mode": "zero", "method.lr": 0.5}
    cells = plan("all", tier="tiny", methods=["ce", "permll-label"], root="somewhere", settings=settings).cells
    assert len(cells) == 6 + len(ETAS) * len(MS)
    for cell in cells[::7]:
        words = shlex.split(cell.command)
        assert words[:3] == ["permll", "train", "tiny/digits"]
        options = list(zip(words[3::2], words[4::2], strict=True))
        assert dict(options)["--out"] == str(cell.folder)
        given = {"method.name": dict(options)["--method"], "training.seed": int(dict(options)["--seed"])}
        given |= dict(setting(value) for name, value in options if name == "--set")
        assert load_recipe(words[2], given).hash == cell.recipe.hash
    assert cells[0].recipe.data.root == "somewhere"  # where data are changes no result, and no command


def test_the_name_of_a_folder_tells_the_cell() -> None:
    for cell in plan("all", tier="mini").cells[::13]:
        named = read_folder_name(cell.folder.name, cell.method, cell.seed)
        assert named is not None
        assert (named.variant, named.seed) == (cell.variant, cell.seed)
        assert cell.folder.name.startswith(named.column)


def test_figure_3_is_a_grid_of_steps_and_initial_weights() -> None:
    cells = plan("figure3", tier="mini", seeds=[5, 6]).cells
    assert len(ETAS) >= 10
    assert len(MS) >= 8
    assert {(cell.noise, cell.seed, cell.method) for cell in cells} == {("sym-60", 5, "permll")}
    found = {(cell.recipe.method.settings["lr"] * 128, cell.recipe.method.settings["init"]) for cell in cells}
    assert found == {(eta, m) for eta in ETAS for m in MS}
    assert {cell.recipe.method.settings["warm_up"] for cell in cells} == {0}
    assert {(24.0, 0.75), (1.5, 0.75), (24.0, 0.95)} <= found


def test_table_2_is_clothing1m_or_the_files_that_are_given() -> None:
    cells = plan("table2", tier="paper", methods=["permll"], seeds=[1]).cells
    assert [(cell.data, cell.noise, cell.frame) for cell in cells] == [("clothing1m", "real", "paper/clothing1m")]
    grid = plan("table2", tier="mini", methods=["ce"], seeds=[1], data=["here/labelme.npz", "here/trec_rules.npz"])
    assert [cell.folder.name for cell in grid.cells] == ["labelme-real-ce-1", "trec-real-ce-1"]
    nothing = plan("table2", tier="mini")
    assert not nothing.cells
    (sentence,) = nothing.left_out
    assert "--data labelme.npz" in sentence


def test_what_cannot_be_trained_is_left_out_with_a_sentence() -> None:
    grid = plan("table1", tier="tiny", methods=["permll", "permll-label"], seeds=[1])
    assert [cell.variant for cell in grid.cells] == [""]
    assert grid.left_out == (
        "permll-label is left out on digits: on the label it needs a step of its own (method.lr), and tier tiny has "
        "none.",
    )
    (about_glc,) = plan("table2", tier="paper", methods=["glc"]).left_out
    assert about_glc.startswith("glc is left out on clothing1m: it needs rows known to be right")
    (about_figure,) = plan("figure3", tier="lite").left_out
    assert "correct_after" in about_figure


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "table3"}, "'table3' is no part of the benchmark, did you mean table"),
        ({"tier": "mnii"}, "'mnii' is no tier of the benchmark, did you mean mini"),
        ({"methods": ["permll-lable"]}, "'permll-lable' is no method, did you mean permll-label"),
        ({"noise": ["sym-50"]}, "tier mini has no noise 'sym-50'"),
        ({"seeds": []}, "at least one"),
        ({"settings": {"training.seed": 3}}, "training.seed is what the plan itself varies"),
        ({"settings": {"training.epoch": 3}}, "there is no key training.epoch, did you mean epochs"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**arguments)
