import doctest
import importlib
import pkgutil

import pytest

import kvassay.conformance
import kvassay.reference

MODULES = [
    info.name
    for package in (kvassay.reference, kvassay.conformance)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold_and_public_functions_say_what_they_do(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
    assert module.__doc__, "a module says what it is for"
    if name.startswith("kvassay.reference"):
        public = [
            value
            for key, value in vars(module).items()
            if callable(value) and not key.startswith("_") and value.__module__ == name
        ]
        assert [value.__name__ for value in public if not value.__doc__] == []


def test_the_examples_were_found():
    finder = doctest.DocTestFinder()
    count = sum(
        len(test.examples)
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
    )
    assert count >= 15
