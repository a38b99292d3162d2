"""Wall time of the default study, from the command to the page, in an empty folder.

python benchmarks/study_time.py --repeats 3
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

from timing import describe_machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    command = [sys.executable, "-c", "from reslab.cli.main import main; main()"]
    seconds = []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            subprocess.run(
                [*command, "study", "degradation"], cwd=folder, check=True, capture_output=True
            )
            seconds.append(time.perf_counter() - start)
    print(describe_machine())
    print(
        f"reslab study degradation: median {statistics.median(seconds):.1f} s "
        f"({min(seconds):.1f} to {max(seconds):.1f})"
    )


if __name__ == "__main__":
    main()
