"""A command of commands, such as `fluoroscope ledger show`."""

import typer


def group(app: typer.Typer, name: str, help: str) -> typer.Typer:
    """Enter a group under its name; alone, it shows its help."""
    made = typer.Typer(help=help, no_args_is_help=True)
    app.add_typer(made, name=name)
    return made
