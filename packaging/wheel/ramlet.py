#!python
"""Starts the program that lies in the package `ramlet`, in place of this process. The package isn't imported for it: that takes a while."""

import os
import sys
from importlib.util import find_spec

package = find_spec("ramlet")
if package is None or package.origin is None:
    sys.exit(f"ramlet: {sys.executable} has no package `ramlet`")
os.execv(os.path.join(os.path.dirname(package.origin), "bin", "ramlet"), ["ramlet", *sys.argv[1:]])
