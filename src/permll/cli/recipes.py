"""``permll recipes``: list and show the built-in recipes."""

import json
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from permll.cli.common import AsJson, terminal_width

if TYPE_CHECKING:
    from permll.training.recipe import Recipe

recipes = typer.Typer(help="List and show the built-in recipes.", no_args_is_help=True)

_TIERS = {
    "tiny": "seconds",
    "mini": "minutes on one core",
    "lite": "the paper's data with a small network",
    "paper": "the paper's settings, for a GPU",
    "own": "for your data",
}


@recipes.command("list")
def list_(
    tier: Annotated[str | None, typer.Option(help="Only recipes of one tier: tiny, mini, lite, paper, own.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the built-in recipes."""
    from permll.training.recipe import Recipe
    from permll.training.recipe_files import load_recipe, recipe_names

    tiers = get_args(Recipe.model_fields["tier"].annotation)
    if tier is not None and tier not in tiers:
        from permll.utils.messages import did_you_mean

        raise ValueError(f"unknown tier {tier!r}{did_you_mean(tier, tiers) or '.'} Available: {', '.join(tiers)}.")
    loaded = {name: load_recipe(name) for name in recipe_names()}
    chosen = {name: recipe for name, recipe in loaded.items() if tier in (None, recipe.tier)}
    if as_json:
        typer.echo(json.dumps([_facts(name, recipe) for name, recipe in chosen.items()], indent=2))
        return
    width = terminal_width()
    indent = max(map(len, chosen), default=0) + 4
    for group in tiers:
        members = {name: recipe for name, recipe in chosen.items() if recipe.tier == group}
        if members:
            typer.echo(f"{group}: {_TIERS.get(group, '')}")
        for name, recipe in members.items():
            head = f"  {name}".ljust(indent)
            typer.echo(textwrap.fill(recipe.title, width, initial_indent=head, subsequent_indent=" " * indent))


@recipes.command()
def show(
    name: Annotated[str, typer.Argument(help="Recipe, as in permll recipes list, or .toml file.")],
    method: Annotated[str | None, typer.Option(help="Method, with its changes to the recipe.")] = None,
) -> None:
    """Show a recipe as TOML, including inherited and default values; the output can be edited and trained."""
    from permll.training.recipe_files import load_recipe

    recipe = load_recipe(name, {} if method is None else {"method.name": method})
    typer.echo(f"# {name}, hash {recipe.hash}")
    typer.echo(recipe.to_toml(), nl=False)


def _facts(name: str, recipe: "Recipe") -> dict[str, Any]:
    return {
        "name": name,
        "tier": recipe.tier,
        "title": recipe.title,
        "data": recipe.data.source,
        "noise": recipe.data.noise,
        "network": recipe.network.name,
        "method": recipe.method.name,
        "epochs": recipe.training.epochs,
        "batch_size": recipe.training.batch_size,
        "hash": recipe.hash,
    }
