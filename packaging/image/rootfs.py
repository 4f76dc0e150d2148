#!/usr/bin/env python3
"""Lays out the image's file system: `rootfs.py BINARY DIR`. Run in the builder's stage of the Dockerfile, and by tests/rigs/packages.py.

Of the system that it runs on it takes what the binary links, the certificates of authorities, and bash-static: health checks of compose
files are often lines of shell, and an image of one binary has none.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def copy(source, root, target=None, mode=None):
    to = root / str(target or source).lstrip("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, to, follow_symlinks=True)
    if mode:
        to.chmod(mode)


def linked(binary):
    """Libraries, and the program that loads them, by the paths that the loader finds them at."""
    text = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", text, re.M)


def main():
    binary, root = Path(sys.argv[1]), Path(sys.argv[2])
    if root.exists():
        sys.exit(f"{root} is there already")
    copy(binary, root, "usr/bin/ramlet", 0o755)
    for library in linked(binary):
        copy(library, root)
    copy("/etc/ssl/certs/ca-certificates.crt", root)
    copy("/bin/bash-static", root, "bin/bash", 0o755)
    (root / "bin/sh").symlink_to("bash")
    # For what the loader and these programs are licensed under.
    for package in ("libc6", "libgcc-s1", "bash-static", "ca-certificates"):
        notice = Path("/usr/share/doc") / package / "copyright"
        if notice.exists():
            copy(notice, root)
    copy(HERE.parents[1] / "LICENSE", root, "usr/share/doc/ramlet/LICENSE")
    copy(HERE / "defaults.yaml", root, "etc/ramlet/defaults.yaml", 0o644)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nramlet:x:1000:1000:ramlet:/qdrant:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nramlet:x:1000:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for directory in ("qdrant/storage", "qdrant/snapshots", "qdrant/config", "tmp", "proc", "dev", "sys"):
        (root / directory).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    # Of another user too, where the container runs as one and no volume is mounted.
    for directory in ("qdrant/storage", "qdrant/snapshots"):
        (root / directory).chmod(0o1777)
    # By these names Qdrant's image is started.
    for name in ("qdrant", "entrypoint.sh"):
        (root / "qdrant" / name).symlink_to("/usr/bin/ramlet")
    size = sum(f.stat().st_size for f in root.rglob("*") if f.is_file() and not f.is_symlink())
    print(f"{root}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
