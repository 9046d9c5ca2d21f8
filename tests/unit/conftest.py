"""Unit tests run on CPU simulation, also on a machine with a GPU."""

import os

import pytest

os.environ["PYGPUKIT_DEVICE"] = "cpu"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "error")
