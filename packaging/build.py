#!/usr/bin/env python3
"""Builds what is installed: `packaging/build.py [--binary FILE] [KIND..]`, kinds: tarball, deb, sbom. All lie in target/packages.
`packaging/build.py wheel`, as `make wheel` calls it, builds the Python package, into python/target/wheels.

Needs a Rust toolchain and a C compiler; binutils for the symbols, dpkg-deb for the .deb. `--target` builds for another triple, whose
standard library (`rustup target add`), compiler and objcopy must be there (CC and OBJCOPY name others). In Debian's names: gcc-aarch64-linux-gnu and
g++-aarch64-linux-gnu; musl-tools. `--binary` packs one that was built before by this script's command.
`--glibc 2.17` builds a wheel for systems as old as that, on any newer one and for any processor: by zig, which `pip` brings.
"""

import argparse
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "packaging"
OUT = ROOT / "target/packages"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SHELLS = {
    "bash": "usr/share/bash-completion/completions/ramlet",
    "zsh": "usr/share/zsh/vendor-completions/_ramlet",
    "fish": "usr/share/fish/vendor_completions.d/ramlet.fish",
}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, text=True, **more)


def told(*command, **more):
    return run(*command, stdout=subprocess.PIPE, **more).stdout.strip()


def version():
    return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def host():
    return re.search(r"^host: (.+)$", told("rustc", "-vV"), re.M)[1]


def commit():
    if os.environ.get("RAMLET_COMMIT"):
        return os.environ["RAMLET_COMMIT"]
    try:
        return told("git", "-C", ROOT, "rev-parse", "HEAD", stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return ""


def moment():
    """Of the commit, in seconds since 1970: two builds of one commit are the same to the byte, as far as the compiler lets them."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    try:
        return int(told("git", "-C", ROOT, "log", "-1", "--format=%ct", stderr=subprocess.DEVNULL))
    except (OSError, subprocess.CalledProcessError):
        return 0


def crossing(target, glibc=None):
    """What compilers must be told to build for this machine."""
    needed = {}
    if target.startswith("aarch64"):
        # Its kernels have pages of 4, 16 or 64 KiB. An allocator for 64 runs on all.
        needed["JEMALLOC_SYS_WITH_LG_PAGE"] = "16"
        if not host().startswith("aarch64") and not glibc:
            needed["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"] = "aarch64-linux-gnu-gcc"
    return needed


def built(target, features, **environment):
    """The binary with its symbols."""
    command = ["cargo", "build", "--locked", "--release", "-p", "ramlet-cli", "--bin", "ramlet", "--features", features]
    directory = ROOT / "target"
    if target != host():
        command += ["--target", target]
        directory /= target
    run(*command, cwd=ROOT, env={**os.environ, **crossing(target), **environment})
    return directory / "release/ramlet"


def build(target):
    """The same for others' machines."""
    home = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    # Messages of panics name files: those of this source, not of this machine.
    remap = f"--remap-path-prefix={home}=/cargo --remap-path-prefix={ROOT}=/ramlet"
    return built(target, "parquet", RAMLET_COMMIT=commit(), RUSTFLAGS=remap)


def stripping(target, tool):
    """The tool of binutils for this machine."""
    cross = target.startswith("aarch64") and not host().startswith("aarch64")
    return f"aarch64-linux-gnu-{tool}" if cross else tool


def compiler(target, maturin, glibc):
    """Of C, for this machine."""
    if glibc:
        machine, system = target.split("-")[0], target.split("-")[-1]
        return [maturin.parent / "python", "-m", "ziglang", "cc", "-target", f"{machine}-linux-{system}.{glibc}"]
    usual = "musl-gcc" if target.endswith("-musl") else "cc" if target == host() else stripping(target, "gcc")
    return os.environ.get("CC", usual).split()


def loader(library, into, command):
    """The wheel's program, which loads the library: 20 KB."""
    symbols = told("readelf", "--dyn-syms", "--wide", library)
    # Python's own names are those that it documents: all begin so.
    names = sorted(set(re.findall(r" UND (_?Py[A-Za-z0-9_]+)$", symbols, re.M)))
    with tempfile.TemporaryDirectory() as work:
        Path(work, "python_names.h").write_text("".join(f"NAME({name})\n" for name in names))
        into.parent.mkdir(exist_ok=True)
        run(*command, "-O1", "-fPIE", "-pie", "-s", "-Wall", "-Werror", f"-I{work}", HERE / "wheel/program.c", "-Wl,--export-dynamic", "-ldl", "-o", into)
    into.chmod(0o755)


def wheel(target, program, features, maturin, glibc):
    """The Python package. Its library holds the program too, if there is one: the engine isn't in the wheel twice."""
    package, maturin = ROOT / "python", Path(maturin).absolute()
    starts = package / "package/ramlet/bin/ramlet"
    environment = {**os.environ, "PATH": f"{maturin.parent}:{os.environ['PATH']}", **crossing(target, glibc)}
    environment["RAMLET_COMMIT"] = commit()
    if target.endswith("-musl"):
        # A library that Python loads takes its C library from there.
        environment["RUSTFLAGS"] = "-C target-feature=-crt-static"
    # maturin's default of 6 gives files that are larger by 3 %.
    command = [maturin, "build", "--release", "--locked", "--compression-level", "9", "--compatibility", "pypi"]
    if program:
        command += ["--features", ",".join(["program", *features.split()])]
    if glibc:
        command += [f"manylinux_{glibc.replace('.', '_')}", "--zig"]
    if target != host() or glibc:
        command += ["--target", target]

    def packed():
        shutil.rmtree(package / "target/wheels", ignore_errors=True)
        run(*command, cwd=package, env=environment)
        return sorted((package / "target/wheels").glob("*.whl"))

    for old in (package / "data", starts.parent):
        shutil.rmtree(old, ignore_errors=True)
    (package / "data").mkdir()
    made = packed()
    if program:
        # Which of Python's names the library asks for is known when it is built; what loads it is packed beside it then.
        with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(made[0]) as wheel:
            loader(wheel.extract("ramlet/_ramlet.abi3.so", work), starts, compiler(target, maturin, glibc))
        scripts = package / "data/scripts"
        scripts.mkdir()
        shutil.copyfile(HERE / "wheel/ramlet.py", scripts / "ramlet")
        (scripts / "ramlet").chmod(0o755)
        made = packed()
        # maturin looks at the library alone.
        needed = least_glibc(starts)
        promised = re.search(r"manylinux_([0-9]+)_([0-9]+)_", made[0].name)
        if needed and promised and tuple(map(int, needed.split("."))) > tuple(map(int, promised.groups())):
            raise SystemExit(f"the program asks for glibc {needed}: more than {made[0].name} promises")
    return made


def split(binary, target, into):
    """The binary without symbols, and the symbols: a debugger finds them beside it by the name that is left in it."""
    objcopy = os.environ.get("OBJCOPY", stripping(target, "objcopy"))
    stripped, symbols = into / "ramlet", into / "ramlet.debug"
    run(objcopy, "--only-keep-debug", "--compress-debug-sections", binary, symbols)
    run(objcopy, "--strip-all", f"--add-gnu-debuglink={symbols}", binary, stripped)
    stripped.chmod(0o755)
    return stripped, symbols


def least_glibc(binary):
    """The newest version of glibc's symbols that the binary asks for; None: it asks for none."""
    text = told("objdump", "-T", binary, stderr=subprocess.DEVNULL)
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", text)}
    return ".".join(map(str, max(versions))) if versions else None


def extras(runs, into):
    """Completions and pages of the manual, by the program itself. `runs`: how it is started here."""
    for shell, path in SHELLS.items():
        file = into / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(told(*runs, "completion", shell) + "\n")
    run(*runs, "man", into / "man")
    manual = into / "usr/share/man/man1"
    manual.mkdir(parents=True, exist_ok=True)
    for page in sorted((into / "man").iterdir()):
        with gzip.GzipFile(manual / f"{page.name}.gz", "wb", mtime=0) as packed:
            packed.write(page.read_bytes())
    shutil.rmtree(into / "man")


def archive(name, files):
    """A tar.gz of (path, file, mode) whose bytes follow from its content alone."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, file, mode in sorted(files):
            entry = tarfile.TarInfo(path)
            content = file.read_bytes()
            entry.size, entry.mode, entry.mtime = len(content), mode, moment()
            tar.addfile(entry, io.BytesIO(content))
    path = OUT / name
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 6, out, mtime=0) as packed:
        packed.write(raw.getvalue())
    return path


def tarball(stripped, symbols, tree, target):
    name = f"ramlet-{version()}-{target}"
    files = [(f"{name}/ramlet", stripped, 0o755)]
    for path in ("LICENSE", "README.md", "CHANGELOG.md", "packaging/ramlet.yaml", "packaging/deb/ramlet.service"):
        files.append((f"{name}/{Path(path).name}", ROOT / path, 0o644))
    for shell, path in SHELLS.items():
        files.append((f"{name}/completions/{Path(path).name}", tree / path, 0o644))
    for page in sorted((tree / "usr/share/man/man1").iterdir()):
        files.append((f"{name}/man/{page.name}", page, 0o644))
    yield archive(f"{name}.tar.gz", files)
    yield archive(f"{name}-symbols.tar.gz", [(f"{name}/ramlet.debug", symbols, 0o644)])


def deb(stripped, tree, target):
    machine = ARCHITECTURES[target.split("-")[0]]
    root = OUT / "deb-root"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(tree, root)
    for source, path, mode in [
        (stripped, "usr/bin/ramlet", 0o755),
        (HERE / "ramlet.yaml", "etc/ramlet/ramlet.yaml", 0o644),
        (HERE / "deb/ramlet.service", "lib/systemd/system/ramlet.service", 0o644),
        (HERE / "deb/copyright", "usr/share/doc/ramlet/copyright", 0o644),
        (HERE / "deb/postinst", "DEBIAN/postinst", 0o755),
        (HERE / "deb/prerm", "DEBIAN/prerm", 0o755),
        (HERE / "deb/postrm", "DEBIAN/postrm", 0o755),
    ]:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, file)
        file.chmod(mode)
    with gzip.GzipFile(root / "usr/share/doc/ramlet/changelog.gz", "wb", 9, mtime=0) as packed:
        packed.write((ROOT / "CHANGELOG.md").read_bytes())
    glibc = least_glibc(stripped)
    needs = "init-system-helpers (>= 1.51), passwd" + (f", libc6 (>= {glibc}), libgcc-s1" if glibc else "")
    size = sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) // 1024
    (root / "DEBIAN/conffiles").write_text("/etc/ramlet/ramlet.yaml\n")
    (root / "DEBIAN/control").write_text(
        f"Package: ramlet\nVersion: {version()}\nArchitecture: {machine}\nMaintainer: Ramlet <https://github.com/ramlet/ramlet>\n"
        f"Depends: {needs}\nRecommends: ca-certificates\nInstalled-Size: {size}\nSection: database\nPriority: optional\n"
        "Homepage: https://github.com/ramlet/ramlet\n"
        "Description: search server for vectors and text within a RAM budget\n"
        " Ramlet keeps collections on an SSD and stays within the RAM that its user\n"
        " sets. It speaks the Qdrant API, REST and gRPC.\n"
    )
    for directory in [root, *(d for d in root.rglob("*") if d.is_dir())]:
        directory.chmod(0o755)
    for file in (f for f in root.rglob("*") if f.is_file() and "share" in f.parts):
        file.chmod(0o644)
    path = OUT / f"ramlet_{version()}_{machine}.deb"
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(moment()))
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path, env=environment, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)
    return path


def sbom(target):
    """What is linked into the binary, in the words of CycloneDX 1.5, from cargo's own tree."""
    tree = told(
        "cargo", "tree", "--locked", "-p", "ramlet-cli", "--features", "parquet", "--target", target,
        "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", cwd=ROOT,
    )
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    metadata = json.loads(told("cargo", "metadata", "--locked", "--format-version", "1", cwd=ROOT))
    components = []
    for package in sorted(metadata["packages"], key=lambda p: (p["name"], p["version"])):
        if (package["name"], f"v{package['version']}") not in linked:
            continue
        component = {
            "type": "library",
            "bom-ref": f"{package['name']}@{package['version']}",
            "name": package["name"],
            "version": package["version"],
            "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
        }
        if package["source"]:
            component["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
        if package["repository"]:
            component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        components.append(component)
    about = {"type": "application", "bom-ref": "ramlet", "name": "ramlet", "version": version(), "licenses": [{"license": {"id": "Apache-2.0"}}]}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": about, "properties": [{"name": "commit", "value": commit()}, {"name": "target", "value": target}]},
        "components": components,
    }
    path = OUT / f"ramlet-{version()}-{target}.cdx.json"
    path.write_text(json.dumps(bom, indent=1) + "\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="tarball, deb, sbom [default: these], wheel")
    parser.add_argument("--target", default=host(), help="triple of the machine that it is for [default: this one]")
    parser.add_argument("--binary", type=Path, help="a binary with its symbols, built before")
    parser.add_argument("--runner", default="", help="what starts a binary of another machine here, as qemu-aarch64 -L DIR")
    parser.add_argument("--program", default="ramlet", help="'': a wheel without the program `ramlet`")
    parser.add_argument("--features", default="parquet", help="its features")
    parser.add_argument("--maturin", default="maturin", help="what builds the wheel; ziglang and cargo-zigbuild lie beside it")
    parser.add_argument("--glibc", help="the oldest glibc that the wheel is for, as 2.17; it is built by zig [default: this machine's]")
    arguments = parser.parse_args()
    kinds = arguments.kinds or ["tarball", "deb", "sbom"]
    if unknown := set(kinds) - {"tarball", "deb", "sbom", "wheel"}:
        parser.error(f"there is no {', '.join(sorted(unknown))}: tarball, deb, sbom, wheel")
    target = arguments.target
    OUT.mkdir(parents=True, exist_ok=True)
    made = []
    if {"tarball", "deb"} & set(kinds):
        binary = arguments.binary or build(target)
        work = OUT / f"work-{target}"
        shutil.rmtree(work, ignore_errors=True)
        tree = work / "tree"
        tree.mkdir(parents=True)
        stripped, symbols = split(binary, target, work)
        extras([*arguments.runner.split(), stripped], tree)
        glibc = least_glibc(stripped)
        print(f"{target}: {stripped.stat().st_size / 1e6:.1f} MB, symbols {symbols.stat().st_size / 1e6:.1f} MB, "
              + (f"glibc {glibc} or newer" if glibc else "static"))
        if "tarball" in kinds:
            made += tarball(stripped, symbols, tree, target)
        if "deb" in kinds and not target.endswith("-musl"):
            made.append(deb(stripped, tree, target))
    if "sbom" in kinds:
        made.append(sbom(target))
    if "wheel" in kinds:
        made += wheel(target, arguments.program, arguments.features, arguments.maturin, arguments.glibc)
    for path in made:
        print(f"{path.stat().st_size / 1e6:7.2f} MB  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
