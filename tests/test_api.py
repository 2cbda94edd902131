"""The public API: every name says what it is and shows it, and the examples run."""

import doctest
import inspect as reflection
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fluoroscope as fl
from fluoroscope.errors import FluoroscopeError

EXAMPLES = Path(__file__).parents[1] / "examples"
PUBLIC = sorted(set(fl.__all__) - {"__version__"})
ERRORS = {name for name in PUBLIC if isinstance(getattr(fl, name), type) and issubclass(getattr(fl, name), Exception)}


def test_there_are_few_names():
    assert len(PUBLIC) <= 36, "the top level is for what most users need"


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - ERRORS))
def test_every_name_has_an_example_that_runs(name):
    part = getattr(fl, name)
    module = import_module(part.__module__)
    found = [test for test in doctest.DocTestFinder().find(part, name, module) if test.examples]
    assert found, f"fl.{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    for test in found:
        runner.run(test)
    assert not runner.failures


@pytest.mark.parametrize("name", [name for name in PUBLIC if reflection.isfunction(getattr(fl, name))])
def test_every_function_says_what_it_takes(name):
    function = getattr(fl, name)
    said = function.__doc__ or ""
    assert "Args:" in said
    taken = [p for p in reflection.signature(function).parameters if p not in ("self", "cls")]
    assert all(f"{parameter}:" in said for parameter in taken), [p for p in taken if f"{p}:" not in said]


def test_errors_have_one_base():
    assert all(issubclass(getattr(fl, name), FluoroscopeError) for name in ERRORS)


def test_the_own_model_example_runs(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["own_model.py", "--iterations", "3"])
    runpy.run_path(str(EXAMPLES / "own_model.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "SSIM" in said
    assert "RDLV" in said
