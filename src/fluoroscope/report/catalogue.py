"""The sentences of an audit's page, all in one file per language: `catalogue.en.toml` is the English one.

A sentence has places, `{found}`, and words that the glossary explains: `[update]`, or `[updates|update]` where the
glossary has it in another form. What stands in `backquotes` is typed.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from markupsafe import Markup, escape

from fluoroscope.errors import Misconfigured

_TERM = re.compile(r"\[([^\]|]+)(?:\|([^\]]+))?\]")
_CODE = re.compile("`([^`]+)`")
_GLOSSARY = "glossary."


@dataclass(frozen=True)
class Catalogue:
    """The sentences of one language by key.

    Example:
        >>> catalogue("en").say("grade.words.A")
        Markup('Holds')
    """

    language: str
    entries: Mapping[str, str] = field(repr=False)

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def say(self, key: str, **parts: object) -> Markup:
        """The sentence with these parts in their places. What is no markup stays text.

        Raises:
            Misconfigured: where the catalogue has no such sentence.
        """
        if key not in self.entries:
            raise Misconfigured(f"the catalogue {self.language!r} has no sentence {key!r}: add it to its file.")
        linked = _TERM.sub(self._term, str(escape(self.entries[key])))
        return Markup(_CODE.sub(r"<code>\1</code>", linked)).format(**parts)

    def plain(self, key: str, **parts: object) -> str:
        """The same for a place that takes no markup, such as a figure's title."""
        text = _TERM.sub(lambda found: found.group(1), self.entries[key])
        return text.format(**parts)

    def glossary(self) -> Iterator[tuple[str, str, str]]:
        """(its address, a word, its meaning), in the order of the alphabet."""
        for key in sorted(key for key in self.entries if key.startswith(_GLOSSARY)):
            word = key.removeprefix(_GLOSSARY)
            yield _address(word), word, self.entries[key]

    def _term(self, found: re.Match[str]) -> str:
        shown, word = found.group(1), (found.group(2) or found.group(1)).lower()
        meaning = escape(self.entries[_GLOSSARY + word])
        return (
            f'<a class="term" href="#{_address(word)}">{shown}<span class="tip" aria-hidden="true">{meaning}</span></a>'
        )


@cache
def catalogue(language: str = "en") -> Catalogue:
    """The sentences of a language.

    Raises:
        Misconfigured: where there is no such file.
    """
    path = files("fluoroscope.report").joinpath(f"catalogue.{language}.toml")
    if not path.is_file():
        raise Misconfigured(f"there is no catalogue for the language {language!r}; there is 'en'.")
    return Catalogue(language, dict(_flat(tomllib.loads(path.read_text(encoding="utf-8")))))


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, str(value)


def _address(word: str) -> str:
    return "word-" + re.sub(r"\W+", "-", word)
