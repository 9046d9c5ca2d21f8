"""The ops as functions."""

from pygpukit.ops import elementwise
from pygpukit.ops.elementwise import *  # noqa: F403
