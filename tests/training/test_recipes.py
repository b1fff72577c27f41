"""Recipes: every built-in one is whole, wrong ones are told what is wrong."""

import csv
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from permll.bench.jobs import format_method
from permll.bench.methods import select_methods, variant_overrides
from permll.data.registry import SETS
from permll.methods import METHODS, find_method
from permll.networks import NETWORKS
from permll.training.optimizers import OPTIMIZERS, build_optimizer
from permll.training.recipe import Recipe, differences, read_recipe
from permll.training.recipe_files import load_recipe, method_changes, recipe_names
from tests.helpers.toy_training import quick_recipe

EVERY = pytest.mark.parametrize("name", recipe_names())
PAPER = {f"{noise}-{rate}" for noise, rates in (("sym", (20, 40, 60, 80)), ("asym", (20, 40))) for rate in rates}


@EVERY
def test_every_recipe_names_what_there_is(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.title
    assert recipe.tier == name.partition("/")[0]
    find_method(recipe.method.name).build(**recipe.method.settings)
    assert recipe.network.name in NETWORKS or ":" in recipe.network.name or recipe.network.name == "auto"
    assert recipe.optimizer.name in OPTIMIZERS


@EVERY
def test_a_recipe_survives_its_own_file(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.to_toml())
    again = load_recipe(path)
    assert again == recipe
    assert again.hash == recipe.hash


def test_the_papers_settings_are_all_there() -> None:
    names = set(recipe_names())
    for tier in ("paper", "lite"):
        for data in ("cifar10", "cifar100"):
            assert {f"{tier}/{data}-{setting}" for setting in PAPER} <= names
    assert {f"mini/{setting}" for setting in PAPER} <= names
    assert {"paper/clothing1m", "tiny/digits"} <= names


def test_tier_mini_has_what_the_search_chose() -> None:
    """One recipe per method for all noise: the setting that noisy validation chose, and no other since."""
    path = Path(__file__).parents[2] / "results" / "mini_search.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    every = {format_method(method, variant): (method, variant) for method, variant in select_methods()}
    del every["permll_plus"]  # has its defaults everywhere: see the next test
    assert {row["method"] for row in rows} == set(every), "every method is searched for, and none is left out"
    for spelling, (name, variant) in every.items():
        (chosen,) = (row for row in rows if row["method"] == spelling and row["chosen"])
        for noise in ("sym-60", "sym-20", "asym-40"):
            recipe = load_recipe(f"mini/{noise}", {"method.name": name, **variant_overrides(name, variant, "mini")})
            defaults = {
                key: one.default for key, one in inspect.signature(METHODS[name].method_class).parameters.items()
            }
            for key, value in json.loads(chosen["settings"]).items():
                section, _, setting = key.partition(".")
                of_method = {**defaults, **recipe.method.settings}
                found = of_method[setting] if section == "method" else getattr(getattr(recipe, section), setting)
                assert found == value, (spelling, key)


@pytest.mark.parametrize("recipe", ["mini/asym-40", "paper/cifar10-sym-60", "lite/cifar100-asym-40", "auto/default"])
def test_permll_plus_has_one_setting_for_everything(recipe: str) -> None:
    plain, plus = (load_recipe(recipe, {"method.name": name}) for name in ("ce", "permll_plus"))
    assert plus.method.settings == {}
    assert plus.optimizer == plain.optimizer
    assert plus.schedule == plain.schedule


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("paper/cifar10-sym-60", (1.5 / 128, 0.35, 5e-4, [80, 100], "none")),
        ("paper/cifar10-asym-20", (1.5 / 128, 0.35, 5e-4, [80, 100], "given")),
        ("paper/cifar100-sym-80", (3 / 128, 0.225, 1e-3, [100], "none")),
        ("paper/cifar100-asym-40", (6 / 128, 0.225, 1e-3, [100], "none")),
        ("paper/clothing1m", (80 / 64, 0.275, 1e-3, [5, 10, 13], "corrected")),
    ],
)
def test_the_papers_numbers(name: str, expected: tuple[Any, ...]) -> None:
    recipe = load_recipe(name)
    method = recipe.method.settings
    found = (
        method["lr"],
        method["init"],
        recipe.optimizer.settings["weight_decay"],
        recipe.schedule.milestones,
        method.get("balance", "none"),
    )
    assert found == expected
    assert recipe.training.epochs == (15 if "clothing" in name else 120)


def test_overrides_reach_in_and_another_method_brings_its_own_defaults() -> None:
    recipe = load_recipe("mini/sym-60", {"training.epochs": 3, "optimizer.lr": 0.5, "method.name": "ce"})
    assert (recipe.training.epochs, recipe.optimizer.settings["lr"]) == (3, 0.5)
    assert recipe.optimizer.settings["momentum"] == 0.9
    assert recipe.method.settings == {}
    same = load_recipe("mini/sym-60", {"method.name": "permll"})
    assert same == load_recipe("mini/sym-60")


def test_a_recipe_may_extend_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mini/sym-60"\n[training]\nepochs = 7\n')
    recipe = load_recipe(path)
    assert recipe.training.epochs == 7
    assert recipe.data.noise == "permll:sym:0.6"


def test_the_hash_follows_what_a_result_depends_on() -> None:
    recipe = quick_recipe()
    assert quick_recipe(training__threads=2).hash == recipe.hash
    assert quick_recipe(data__root="/elsewhere").hash == recipe.hash
    for other in ({"training__seed": 1}, {"optimizer__lr": 0.1}, {"data__noise": "sym:0.2"}, {"method__init": 0.4}):
        assert quick_recipe(**other).hash != recipe.hash


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"training.epoch": 3}, "there is no key training.epoch, did you mean epochs"),
        ({"trainig.epochs": 3}, "there is no key trainig, did you mean training"),
        ({"training.epochs": 0}, "training.epochs is 0, but input should be greater than or equal to 1"),
        ({"training.epochs": "many"}, "training.epochs is 'many', but"),
        ({"views.normalise": "mnist"}, "views.normalise is 'mnist', but"),
    ],
)
def test_wrong_values_are_named_with_what_would_be_right(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        load_recipe("mini/sym-60", overrides)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"data is missing.*network is missing.*training is missing"):
        read_recipe({"title": "nothing"}, "recipe x")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'mini/sym60' is no recipe, .* and no run, did you mean mini/sym-60"):
        load_recipe("mini/sym60")
    (tmp_path / "broken.toml").write_text("epochs = = 3")
    with pytest.raises(ValueError, match="is no TOML"):
        load_recipe(tmp_path / "broken.toml")


def test_a_method_brings_its_settings_for_tier_data_and_noise(tmp_path: Path) -> None:
    for noise, lr in (("sym", 0.0234375), ("asym", 0.046875)):
        settings = load_recipe(f"paper/cifar100-{noise}-20").method.settings
        assert settings == {"init": 0.225, "lr": lr}
    path = tmp_path / "mine.toml"
    path.write_text('extends = "paper/cifar10-sym-20"\n[method]\ninit = 0.5\n[data]\nnoise = "permll:asym:0.2"')
    assert load_recipe(path).method.settings == {"init": 0.5, "lr": 0.01171875, "balance": "given"}
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(load_recipe("mini/sym-60").to_toml().replace("init = 0.35", ""))
    assert load_recipe(resolved).method.settings == {"lr": 0.375, "warm_up": 316}, "a whole recipe is what it says"


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_changes_is_what_there_is(method: str) -> None:
    """Every section of a method's file gives a recipe that can be checked, and settings that the method has."""
    info = find_method(method)
    for tier, content in method_changes(method).items():
        for name in recipe_names():
            if name.startswith(f"{tier}/"):
                recipe = load_recipe(name, {"method.name": method})
                info.build(**recipe.method.settings)
                assert recipe.optimizer.name in OPTIMIZERS
        known = {*Recipe.model_fields, *SETS}
        assert set(content) <= known, f"methods/{method}.toml, [{tier}]"
        assert {"sym", "asym"} >= {key for name in SETS for key in content.get(name, {})} - set(Recipe.model_fields)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("lr", "there is no key lr, did you mean optimizer.lr"),
        ("epoch", "there is no key epoch, did you mean training.epochs"),
        ("training.epoch", "there is no key training.epoch, did you mean epochs"),
        ("zebra", "there is no key zebra[.]"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_the_right_one(key: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_recipe("mini/sym-60", {key: 3})


def test_settings_of_an_optimizer_are_checked() -> None:
    network = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="sgd has no setting 'momentun', did you mean momentum"):
        build_optimizer(network, "sgd", lr=0.1, momentun=0.9)
    with pytest.raises(ValueError, match="the setting lr of adam must be a number, got 'abc'"):
        build_optimizer(network, "adam", lr="abc")


def test_what_differs_between_recipes_is_named() -> None:
    one, other = (
        quick_recipe(),
        quick_recipe(training__epochs=9, training__seed=4, optimizer__lr=0.3, method__name="ce"),
    )
    assert differences(one, quick_recipe(training__epochs=9)) == "training.epochs 3 and 9"
    assert differences(one, other).endswith(", ...")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_every_optimizer_moves_every_kind_of_number(name: str, dtype: torch.dtype) -> None:
    network = torch.nn.Linear(64, 64).to(dtype)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = build_optimizer(network, name, lr=0.5)
    network(torch.ones(8, 64, dtype=dtype)).sum().backward()
    optimizer.step()
    assert all((old != new).all() for old, new in zip(before, network.parameters(), strict=True))
