"""The classes of native/runtime, registered on first import of this module."""

from pygpukit import _native

globals().update({k: v for k, v in vars(_native.load_runtime()).items() if not k.startswith("__")})
