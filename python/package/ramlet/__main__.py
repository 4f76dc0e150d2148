"""`python -m ramlet serve|import|plan|bench ...`: the `ramlet` program that comes with the package. `migrate` is the package's own command."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program() -> str | None:
    """The program that lies in the package; else one that is installed otherwise."""
    own = Path(__file__).parent / "bin" / "ramlet"
    return str(own) if own.is_file() else shutil.which("ramlet")


def main() -> None:
    if sys.argv[1:2] == ["migrate"]:
        from .migrate import main as migrate

        sys.exit(migrate(sys.argv[2:]))
    path = program()
    if path is None:
        sys.exit("ramlet: this package came without the program `ramlet`, and there is none on the PATH: install a wheel that has it")
    os.execv(path, ["ramlet", *sys.argv[1:]])


if __name__ == "__main__":
    main()
