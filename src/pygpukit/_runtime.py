"""The classes of native/runtime, registered when this module is first imported."""

from pygpukit import _native

globals().update({k: v for k, v in vars(_native.load_runtime()).items() if not k.startswith("__")})
