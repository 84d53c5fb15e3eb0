"""What every adapter of a published package asks before it answers."""

from importlib.metadata import packages_distributions, version


def version_alone(distribution: str, module: str) -> str:
    """The version installed. ImportError if another distribution has the top-level `module`
    too, as a dozen have `turboquant`: one overwrites the other."""
    installed = version(distribution)
    owners = sorted(set(packages_distributions().get(module, ())))
    if owners != [distribution]:
        raise ImportError(f"module {module} must be {distribution}'s alone, but is of {owners}")
    return installed
