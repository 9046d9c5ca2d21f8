"""The command line: ``python -m pygpukit`` reports, ``python -m pygpukit cache`` keeps kernels."""

import sys

from pygpukit._cli import main
from pygpukit._cli.terminal import run

if __name__ == "__main__":
    sys.exit(run(main))
