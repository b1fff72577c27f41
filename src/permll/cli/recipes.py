"""``permll recipes``: the trainings that come with the package."""

import json
import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

if TYPE_CHECKING:
    from permll.training.recipe import Recipe

recipes = typer.Typer(help="List and show the recipes that trainings begin with.", no_args_is_help=True)

NARROWEST = 60
_TIERS = {
    "tiny": "seconds",
    "mini": "minutes on a core",
    "lite": "the paper's data, a small network",
    "paper": "as in the paper, for a GPU",
    "own": "for one's own data",
}


@recipes.command("list")
def list_(
    tier: Annotated[str | None, typer.Option(help="Only those of one size: tiny, mini, lite, paper, own.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the built-in recipes."""
    from permll.training.recipe_files import load_recipe, recipe_names

    known = _tiers()
    if tier is not None and tier not in known:
        from permll.utils.messages import did_you_mean

        raise ValueError(f"{tier!r} is no tier{did_you_mean(tier, known) or '.'} There are {', '.join(known)}.")
    found = {name: load_recipe(name) for name in recipe_names()}
    chosen = {name: recipe for name, recipe in found.items() if tier in (None, recipe.tier)}
    if as_json:
        typer.echo(json.dumps([_facts(name, recipe) for name, recipe in chosen.items()], indent=2))
        return
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    room = max(map(len, chosen), default=0) + 4
    for size in known:
        own = {name: recipe for name, recipe in chosen.items() if recipe.tier == size}
        if own:
            typer.echo(f"{size}: {_TIERS.get(size, '')}")
        for name, recipe in own.items():
            head = f"  {name}".ljust(room)
            typer.echo(textwrap.fill(recipe.title, width, initial_indent=head, subsequent_indent=" " * room))


@recipes.command()
def show(
    name: Annotated[str, typer.Argument(help="A recipe, as permll recipes list calls it, or a .toml file.")],
    method: Annotated[str | None, typer.Option(help="With another method, and what it changes in the recipe.")] = None,
) -> None:
    """Show a recipe with everything it inherits and every default: TOML, to be changed and trained with."""
    from permll.training.recipe_files import load_recipe

    recipe = load_recipe(name, {} if method is None else {"method.name": method})
    typer.echo(f"# {name}, hash {recipe.hash}")
    typer.echo(recipe.to_toml(), nl=False)


def _tiers() -> tuple[str, ...]:
    from permll.training.recipe import Recipe

    return get_args(Recipe.model_fields["tier"].annotation)


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
