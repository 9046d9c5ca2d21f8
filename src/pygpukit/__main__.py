"""The command line: a report, the kernel cache (``cache``) and a live view (``top``)."""

import sys

from pygpukit._cli import main
from pygpukit._cli.terminal import run

if __name__ == "__main__":
    sys.exit(run(main))
