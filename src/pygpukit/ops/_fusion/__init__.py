"""Inside of gp.fuse: the trace of a function (trace, row_ops), and CUDA C from it (source)."""
