"""Every op under one name."""

from pygpukit.ops.elementwise import *  # noqa: F403
