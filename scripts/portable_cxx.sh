#!/bin/sh
# A C++ compiler for wheels that run on glibc 2.28 and newer; needs `pip install ziglang`.
exec python -m ziglang c++ -target "$(uname -m)-linux-gnu.2.28" "$@"
