"""One run, from input to output: the core without I/O, and its two drivers."""
