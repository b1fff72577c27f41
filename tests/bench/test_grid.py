"""Plans: jobs, their order and their recipes."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from permll.bench import plan
from permll.bench.grid import ETAS, MS
from permll.bench.jobs import parse_job_name
from permll.cli.common import parse_overrides
from permll.methods import METHODS
from permll.training import load_recipe

NOISE = ["sym-20", "sym-40", "sym-60", "sym-80", "asym-20", "asym-40"]


def test_table1_has_all_methods_and_settings_in_paper_order() -> None:
    grid = plan("table1", tier="mini")
    assert len(grid.jobs) == (len(METHODS) + 1) * 6 * 3
    assert len({job.folder for job in grid.jobs}) == len(grid.jobs)
    order = list(dict.fromkeys((job.method, job.variant) for job in grid.jobs))
    paper = ["ce", "bootstrap_soft", "bootstrap_hard", "gce", "sl", "forward", "joint", "pencil", "elr", "selc"]
    assert set(order[:12]) == {*((name, "") for name in paper), ("permll", ""), ("permll", "label")}
    assert [job.noise for job in grid.jobs[:18:3]] == NOISE
    assert {job.recipe.method.settings["on"] for job in grid.jobs if job.variant} == {"label"}


@pytest.mark.parametrize(
    ("tier", "data", "columns"), [("tiny", ["digits"], 1), ("lite", ["cifar10", "cifar100"], 12), ("paper", None, 12)]
)
def test_table1_settings_of_other_tiers(tier: str, data: list[str] | None, columns: int) -> None:
    grid = plan("table1", tier=tier, methods=["ce"], seeds=[1])
    assert len(grid.jobs) == columns
    assert list(dict.fromkeys(job.data for job in grid.jobs)) == (data or ["cifar10", "cifar100"])
    for job in grid.jobs:
        assert job.recipe.tier == tier
        assert job.recipe.data.source == job.data
        kind, percent = job.noise.split("-")
        assert job.recipe.data.noise.removeprefix("permll:") == f"{kind}:0.{percent[0]}"


def test_seed_sets_noise_and_split_seeds() -> None:
    (job,) = plan(tier="mini", methods=["elr"], noise=["asym-40"], seeds=[2], out="runs").jobs
    seeds = {"training.seed": 2, "data.noise_seed": 44, "data.split_seed": 44}
    assert job.recipe.hash == load_recipe("mini/asym-40", {"method.name": "elr", **seeds}).hash
    assert job.folder == Path("runs/mini/asym-40-elr-2")


def test_job_command_gives_its_recipe() -> None:
    overrides = {"training.epochs": 2, "network.widths": [32], "views.padding_mode": "zero", "method.lr": 0.5}
    jobs = plan("all", tier="tiny", methods=["ce", "permll-label"], root="somewhere", overrides=overrides).jobs
    assert len(jobs) == 6 + len(ETAS) * len(MS)
    for job in jobs[::7]:
        words = shlex.split(job.command)
        assert words[:3] == ["permll", "train", "tiny/digits"]
        options = list(zip(words[3::2], words[4::2], strict=True))
        assert dict(options)["--out"] == str(job.folder)
        given = {"method.name": dict(options)["--method"], "training.seed": int(dict(options)["--seed"])}
        given |= parse_overrides([value for name, value in options if name == "--set"])
        assert load_recipe(words[2], given).hash == job.recipe.hash
    assert jobs[0].recipe.data.root == "somewhere"  # not part of the command or the hash


def test_folder_name_contains_the_job_name() -> None:
    for job in plan("all", tier="mini").jobs[::13]:
        name = parse_job_name(job.folder.name, job.method, job.seed)
        assert name is not None
        setting, variant = name
        assert variant == job.variant
        assert job.folder.name.startswith(setting)


def test_figure3_is_a_grid_of_eta_and_m() -> None:
    jobs = plan("figure3", tier="mini", seeds=[5, 6]).jobs
    assert len(ETAS) >= 10
    assert len(MS) >= 8
    assert {(job.noise, job.seed, job.method) for job in jobs} == {("sym-60", 5, "permll")}
    points = {(job.recipe.method.settings["lr"] * 128, job.recipe.method.settings["init"]) for job in jobs}
    assert points == {(eta, m) for eta in ETAS for m in MS}
    assert {job.recipe.method.settings["warm_up"] for job in jobs} == {0}
    assert {(24.0, 0.75), (1.5, 0.75), (24.0, 0.95)} <= points


def test_table2_is_clothing1m_or_the_given_files() -> None:
    jobs = plan("table2", tier="paper", methods=["permll"], seeds=[1]).jobs
    assert [(job.data, job.noise, job.recipe_name) for job in jobs] == [("clothing1m", "real", "paper/clothing1m")]
    grid = plan("table2", tier="mini", methods=["ce"], seeds=[1], data=["here/labelme.npz", "here/trec_rules.npz"])
    assert [job.folder.name for job in grid.jobs] == ["labelme-real-ce-1", "trec-real-ce-1"]
    empty = plan("table2", tier="mini")
    assert not empty.jobs
    (message,) = empty.skipped
    assert "--data labelme.npz" in message


def test_jobs_without_requirements_are_skipped() -> None:
    grid = plan("table1", tier="tiny", methods=["permll", "permll-label"], seeds=[1])
    assert [job.variant for job in grid.jobs] == [""]
    assert grid.skipped == (
        "permll-label is skipped on digits: on the label it needs method.lr, which tier tiny does not set.",
    )
    (glc,) = plan("table2", tier="paper", methods=["glc"]).skipped
    assert glc.startswith("glc is skipped on clothing1m: it needs samples with verified labels")
    (figure3,) = plan("figure3", tier="lite").skipped
    assert "correct_after" in figure3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experiment": "table3"}, "unknown experiment 'table3', did you mean table"),
        ({"tier": "mnii"}, "unknown tier 'mnii', did you mean mini"),
        ({"methods": ["permll-lable"]}, "unknown method 'permll-lable', did you mean permll-label"),
        ({"noise": ["sym-50"]}, "unknown noise 'sym-50' at tier mini"),
        ({"seeds": []}, "at least one"),
        ({"overrides": {"training.seed": 3}}, "training.seed is set by the plan"),
        ({"overrides": {"training.epoch": 3}}, "training.epoch, did you mean epochs"),
    ],
)
def test_plan_refuses_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**arguments)
