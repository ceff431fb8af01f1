"""One side's process: reads names of programs from stdin, answers each with its figure as JSON."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import warnings
from pathlib import Path

import stream_programs  # noqa: F401  # registers its programs
from programs import PROGRAMS


def main() -> None:
    warnings.simplefilter("ignore")
    print(json.dumps({"ready": sorted(PROGRAMS)}), flush=True)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            gc.collect()
            try:
                answer = {"figure": PROGRAMS[line.strip()](Path(folder))}
            except Exception as exc:
                answer = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
