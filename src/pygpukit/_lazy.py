"""Names of a package that are loaded on first use, so that importing the package stays cheap."""

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(
    package: str, homes: "Mapping[str, tuple[str, ...]]", submodules: "tuple[str, ...]" = ()
) -> "Callable[[str], object]":
    """A module __getattr__ for `package`: `homes` maps a module to the names it defines."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        import importlib
        import sys

        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value: object = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
