"""Recipes: built-in ones are valid, errors are reported with suggestions."""

import csv
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from permll.bench.jobs import format_method
from permll.bench.methods import select_methods, variant_overrides
from permll.data.registry import DATASETS
from permll.methods import METHODS, find_method
from permll.networks import NETWORKS
from permll.training.optimizers import OPTIMIZERS, build_optimizer
from permll.training.recipe import FORMER_NAMES, Recipe, parse_recipe, recipe_diff
from permll.training.recipe_files import load_recipe, method_overrides, recipe_names
from tests.helpers.toy_training import quick_recipe

EVERY = pytest.mark.parametrize("name", recipe_names())
PAPER = {f"{noise}-{rate}" for noise, rates in (("sym", (20, 40, 60, 80)), ("asym", (20, 40))) for rate in rates}


@EVERY
def test_built_in_recipe_names_known_components(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.title
    folder = name.partition("/")[0]
    assert recipe.tier == {"auto": "own"}.get(folder, folder)
    find_method(recipe.method.name).build(**recipe.method.settings)
    assert recipe.network.name in NETWORKS or ":" in recipe.network.name or recipe.network.name == "auto"
    assert recipe.optimizer.name in OPTIMIZERS


@EVERY
def test_recipe_round_trips_through_toml(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.to_toml())
    again = load_recipe(path)
    assert again == recipe
    assert again.hash == recipe.hash


def test_recipes_cover_the_settings_of_the_paper() -> None:
    names = set(recipe_names())
    for tier in ("paper", "lite"):
        for data in ("cifar10", "cifar100"):
            assert {f"{tier}/{data}-{setting}" for setting in PAPER} <= names
    assert {f"mini/{setting}" for setting in PAPER} <= names
    assert {"paper/clothing1m", "tiny/digits"} <= names


def test_mini_recipes_have_the_searched_settings() -> None:
    """One recipe per method for all kinds of noise, with the settings that noisy validation chose."""
    path = Path(__file__).parents[2] / "results" / "mini_search.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    current = {former: name for name, former in FORMER_NAMES["method"].items()}
    every = {format_method(method, variant): (method, variant) for method, variant in select_methods()}
    del every["permll_plus"]  # default settings in all recipes: see the next test
    assert {row["method"] for row in rows} == set(every), "the search covers every method"
    for spelling, (name, variant) in every.items():
        (chosen,) = (row for row in rows if row["method"] == spelling and row["chosen"])
        for noise in ("sym-60", "sym-20", "asym-40"):
            recipe = load_recipe(f"mini/{noise}", {"method.name": name, **variant_overrides(name, variant, "mini")})
            defaults = {
                key: one.default for key, one in inspect.signature(METHODS[name].method_class).parameters.items()
            }
            for key, value in json.loads(chosen["settings"]).items():
                section, _, setting = key.partition(".")
                settings = getattr(recipe, section).model_dump()
                settings = defaults | settings if section == "method" else settings
                name_now = setting if setting in settings else current[setting]
                assert settings[name_now] == value, (spelling, key)


@pytest.mark.parametrize("recipe", ["mini/asym-40", "paper/cifar10-sym-60", "lite/cifar100-asym-40", "auto/default"])
def test_permll_plus_has_the_same_settings_in_all_recipes(recipe: str) -> None:
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
def test_paper_recipes_have_the_numbers_of_the_paper(name: str, expected: tuple[Any, ...]) -> None:
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


def test_overrides_of_method_replace_its_settings() -> None:
    recipe = load_recipe("mini/sym-60", {"training.epochs": 3, "optimizer.lr": 0.5, "method.name": "ce"})
    assert (recipe.training.epochs, recipe.optimizer.settings["lr"]) == (3, 0.5)
    assert recipe.optimizer.settings["momentum"] == 0.9
    assert recipe.method.settings == {}
    same = load_recipe("mini/sym-60", {"method.name": "permll"})
    assert same == load_recipe("mini/sym-60")


def test_recipe_file_extends_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mini/sym-60"\n[training]\nepochs = 7\n')
    recipe = load_recipe(path)
    assert recipe.training.epochs == 7
    assert recipe.data.noise == "permll:sym:0.6"


def test_recipe_hash_ignores_settings_without_effect() -> None:
    recipe = quick_recipe()
    assert quick_recipe(training__threads=2).hash == recipe.hash
    assert quick_recipe(data__root="/elsewhere").hash == recipe.hash
    for other in ({"training__seed": 1}, {"optimizer__lr": 0.1}, {"data__noise": "sym:0.2"}, {"method__init": 0.4}):
        assert quick_recipe(**other).hash != recipe.hash


def test_recipe_hash_is_that_of_recorded_results() -> None:
    """Settings were renamed since; caches of results look them up by hash."""
    seeds = {"training.seed": 1, "data.noise_seed": 43, "data.split_seed": 43}
    recorded = {}
    with (Path(__file__).parents[2] / "results" / "mini.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if (row["noise"], row["seed"], row["variant"]) == ("sym-20", "1", ""):
                recorded[row["method"]] = row["recipe_hash"]
    for method in ("permll", "webly", "dividemix"):
        assert load_recipe("mini/sym-20", {"method.name": method, **seeds}).hash == recorded[method]
    lite = load_recipe("lite/cifar10-sym-60")
    assert (lite.method.settings["correct_after"], lite.views.normalize) == (0.9, "cifar10")
    assert lite.hash == "ec7d93da362371ce"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"training.epoch": 3}, "unknown key training.epoch, did you mean epochs"),
        ({"trainig.epochs": 3}, "unknown key trainig, did you mean training"),
        ({"training.epochs": 0}, "training.epochs is 0, but input should be greater than or equal to 1"),
        ({"training.epochs": "many"}, "training.epochs is 'many', but"),
        ({"views.normalize": "mnist"}, "views.normalize is 'mnist', but"),
    ],
)
def test_load_recipe_refuses_wrong_values(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        load_recipe("mini/sym-60", overrides)


def test_parse_recipe_lists_all_errors() -> None:
    with pytest.raises(ValueError, match=r"data is missing.*network is missing.*training is missing"):
        parse_recipe({"title": "nothing"}, "recipe x")


def test_load_recipe_refuses_unknown_names_and_bad_toml(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'mini/sym60' is not a recipe, .* or a run, did you mean mini/sym-60"):
        load_recipe("mini/sym60")
    (tmp_path / "broken.toml").write_text("epochs = = 3")
    with pytest.raises(ValueError, match="is not valid TOML"):
        load_recipe(tmp_path / "broken.toml")


def test_method_overrides_follow_tier_data_and_noise(tmp_path: Path) -> None:
    for noise, lr in (("sym", 0.0234375), ("asym", 0.046875)):
        settings = load_recipe(f"paper/cifar100-{noise}-20").method.settings
        assert settings == {"init": 0.225, "lr": lr}
    path = tmp_path / "mine.toml"
    path.write_text('extends = "paper/cifar10-sym-20"\n[method]\ninit = 0.5\n[data]\nnoise = "permll:asym:0.2"')
    assert load_recipe(path).method.settings == {"init": 0.5, "lr": 0.01171875, "balance": "given"}
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(load_recipe("mini/sym-60").to_toml().replace("init = 0.35", ""))
    assert load_recipe(resolved).method.settings == {"lr": 0.375, "warm_up": 316}, "a complete recipe gets no overrides"


@pytest.mark.parametrize("method", METHODS)
def test_method_overrides_are_valid_for_all_recipes(method: str) -> None:
    """Every section of a method's file gives a valid recipe, with settings that the method has."""
    info = find_method(method)
    for tier, content in method_overrides(method).items():
        for name in recipe_names():
            if name.startswith(f"{tier}/"):
                recipe = load_recipe(name, {"method.name": method})
                info.build(**recipe.method.settings)
                assert recipe.optimizer.name in OPTIMIZERS
        known = {*Recipe.model_fields, *DATASETS}
        assert set(content) <= known, f"methods/{method}.toml, [{tier}]"
        assert {"sym", "asym"} >= {key for name in DATASETS for key in content.get(name, {})} - set(Recipe.model_fields)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("lr", "unknown key lr, did you mean optimizer.lr"),
        ("epoch", "unknown key epoch, did you mean training.epochs"),
        ("training.epoch", "unknown key training.epoch, did you mean epochs"),
        ("zebra", "unknown key zebra[.]"),
    ],
)
def test_unknown_key_suggests_the_section(key: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_recipe("mini/sym-60", {key: 3})


def test_build_optimizer_refuses_unknown_settings() -> None:
    network = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="unknown setting of sgd 'momentun', did you mean momentum"):
        build_optimizer(network, "sgd", lr=0.1, momentun=0.9)
    with pytest.raises(ValueError, match="the setting lr of adam must be a number, got 'abc'"):
        build_optimizer(network, "adam", lr="abc")


def test_recipe_diff_names_the_settings() -> None:
    one, other = (
        quick_recipe(),
        quick_recipe(training__epochs=9, training__seed=4, optimizer__lr=0.3, method__name="ce"),
    )
    assert recipe_diff(one, quick_recipe(training__epochs=9)) == "training.epochs 3 and 9"
    assert recipe_diff(one, other).endswith(", ...")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_optimizer_moves_parameters_of_any_dtype(name: str, dtype: torch.dtype) -> None:
    network = torch.nn.Linear(64, 64).to(dtype)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = build_optimizer(network, name, lr=0.5)
    network(torch.ones(8, 64, dtype=dtype)).sum().backward()
    optimizer.step()
    assert all((old != new).all() for old, new in zip(before, network.parameters(), strict=True))
