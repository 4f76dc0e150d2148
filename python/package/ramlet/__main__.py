"""`python -m ramlet serve|import|plan|bench ...`: the `ramlet` program that comes with the package. `migrate` is the package's own command."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def program() -> str | None:
    """The program that pip put beside the interpreter's other ones; else one that is installed otherwise."""
    folders = [sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", "posix_user"))
    places = [Path(folder) / "ramlet" for folder in folders]
    own = next((place for place in places if place.is_file()), None)
    return str(own) if own else shutil.which("ramlet")


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
