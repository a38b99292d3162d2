"""How long looking takes: help, the model list, importing reslab.

python benchmarks/start_time.py --repeats 7
"""

import argparse
import subprocess
import sys
import time

from timing import describe_machine, show, take_turns


def timed(code: str):
    def run() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        return time.perf_counter() - start

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    cli = "import sys; sys.argv[1:] = {!r}; from reslab.cli.main import main; main()"
    contenders = {
        "python -c pass": timed("pass"),
        "import reslab": timed("import reslab"),
        "reslab --help": timed(cli.format(["--help"])),
        "reslab models": timed(cli.format(["models"])),
        "import torch": timed("import torch"),
    }
    print(describe_machine())
    show(take_turns(contenders, repeats=options.repeats), unit="s", against="python -c pass")


if __name__ == "__main__":
    main()
