"""Other libraries on our arrays: each module has the uses of one or two of them."""
