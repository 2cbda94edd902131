"""Tells griffe, which reads docstrings for the site, that "Example:" is a section of doctests."""

from typing import Any

from griffe import Extension, Object


class ExampleSections(Extension):
    """Renames the section in what griffe has read; the docstrings stay as they are."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
