"""The command line: a report, and the commands of pygpukit._cli."""

import sys

from pygpukit._cli import main
from pygpukit._cli.terminal import run

if __name__ == "__main__":
    sys.exit(run(main))
