"""What is said above and below a table: what is seen, how it was chosen, where it came from."""

from permll.report.tables.model import Table
from permll.report.tables.significance import RULE
from permll.report.tables.specs import ORACLE, Kind
from permll.report.tables.titles import TRUSTED, data_title, is_trusted

TRUSTED_NOTE = f"{TRUSTED} is given some rows with right labels, which the others are not: never bold, and not ranked."


def caption(table: Table, kind: Kind) -> str:
    """Return what a table shows, over how many seeds, at which tier, and what stands beside it."""
    counts = {cell.n for line in table.lines for cell in line.cells if cell.n}
    seeds = f"{min(counts)} to {max(counts)} seeds" if len(counts) > 1 else _seeds(next(iter(counts), 0))
    ours = dict.fromkeys(
        column.data for place, column in enumerate(table.columns) if any(line.cells[place].n for line in table.lines)
    )
    said = f"{kind.shown}: mean ± standard deviation over {seeds}. Tier {table.tier}"
    said += f": {', '.join(map(data_title, ours))}." if ours else "."
    return said + _beside(table)


def notes(table: Table, kind: Kind, *, has_base: bool) -> tuple[str, ...]:
    """Return the notes below a table."""
    cells = [cell for line in table.lines for cell in line.cells]
    said = []
    if any(cell.bold for cell in cells):
        said.append(RULE)
    if any(cell.note.startswith("n=") for cell in cells):
        said.append("n= marks a number from fewer seeds than others in this table.")
    if any(cell.mean is None for cell in cells):
        said.append("-: not run here, or not measured by the method.")
    if any(ORACLE in column.title + column.quantity.title for column in table.columns):
        said.append(f"{ORACLE} an oracle's choice: the best epoch is picked by the test labels, which no user has.")
    if any(is_trusted((line.method, line.variant)) for line in table.lines):
        said.append(TRUSTED_NOTE)
    if kind.name == "time" and not has_base:
        said.append("There is no run of ce to divide by.")
    return tuple(said)


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"


def _beside(table: Table) -> str:
    """Say what the numbers in parentheses are, and how far they can be compared with ours."""
    there = {
        column.data
        for place, column in enumerate(table.columns)
        if any(line.cells[place].printed for line in table.lines)
    }
    if not there:
        return ""
    said = " In parentheses what the paper prints"
    small = [data for data in there if data in ("digits", "fashion_mnist")]
    if small:
        return (
            f"{said} for CIFAR-10 with the same noise: other data and a larger network, so compare orders, not levels."
        )
    if table.tier != "paper":
        return f"{said}, with a larger network and a longer training than tier {table.tier}."
    return f"{said}."
