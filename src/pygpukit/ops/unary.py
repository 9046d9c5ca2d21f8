"""Unary functions under the module name of 0.2; defined in pygpukit.ops.elementwise."""

from pygpukit.ops.elementwise import abs, cos, exp, log, neg, relu, rsqrt, sigmoid, sin, sqrt, tanh

__all__ = ["abs", "cos", "exp", "log", "neg", "relu", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"]
