"""The command line: a report, ``cache``, ``top``, ``chat``, ``generate``, ``transcribe``, ..."""

import sys

from pygpukit._cli import main
from pygpukit._cli.terminal import run

if __name__ == "__main__":
    sys.exit(run(main))
