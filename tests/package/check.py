"""Builds wheel and sdist of the tracked files, looks into them, and installs the wheel.

    python -m tests.package.check FOLDER

The folder gets the two. The wheel holds every tracked file of the package and no other, and the
sdist builds the same wheel. Installed without extras in an environment of its own, which is removed
afterwards, it does what `use.py` does, and brings no more than `MOST` packages.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = {"keras_bert": "keras_bert", "export": "keras_bert/export"}
DESCRIPTION = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
DESCRIPTION |= {"top_level.txt"}  # setuptools' own
MOST = 45


def run(*command, **options):
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, **options
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def tracked(*folders):
    return run("git", "ls-files", "-z", *folders, cwd=ROOT).strip("\0").split("\0")


def build(source, output, *kinds):
    """Builds with what is installed here, not with what is newest."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", output, *kinds, source)
    return sorted(output.glob("*.whl"))[0]


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def check_contents(wheel):
    """Tracked files, byte for byte, and what describes the wheel."""
    found = contents(wheel)
    (described,) = {name.split("/")[0] for name in found if ".dist-info/" in name}
    expected = {f"{described}/{name}" for name in DESCRIPTION}
    for folder, place in PLACES.items():
        for name in tracked(folder):
            there = place + name.removeprefix(folder)
            expected.add(there)
            if found.get(there, b"") != (ROOT / name).read_bytes():
                sys.exit(f"{wheel.name}: {there} is missing or not {name}")
    if found.keys() != expected:
        sys.exit(f"{wheel.name}: missing or too much: {sorted(found.keys() ^ expected)}")
    if found[f"{described}/licenses/LICENSE"] != (ROOT / "LICENSE").read_bytes():
        sys.exit(f"{wheel.name}: another license")
    return len(found)


def install(wheel, place):
    """The environment's folder of programs, and the packages that the wheel brought."""
    venv.create(place, with_pip=True)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    listing = (programs / "python", "-m", "pip", "list", "--format", "json")
    before = {package["name"] for package in json.loads(run(*listing))}
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel)
    run(programs / "python", "-m", "pip", "check")
    return programs, sorted({package["name"] for package in json.loads(run(*listing))} - before)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
        earlier.unlink()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = Path(scratch)
        for name in tracked():  # so that nothing else can get in
            (scratch / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, scratch / "source" / name)
        wheel = build(scratch / "source", folder)  # of the sdist
        direct = build(scratch / "source", scratch / "direct", "--wheel")
        if contents(direct) != contents(wheel):
            sys.exit("The sdist builds another wheel than the source.")
        print(f"{wheel.name}: {check_contents(wheel)} files, {wheel.stat().st_size:,} bytes")
        print(f"{next(folder.glob('*.tar.gz')).name}: builds the same wheel")
        programs, packages = install(wheel, scratch / "environment")
        alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        usage = run(programs / "keras-bert", "--help", cwd=scratch, env=alone)
        assert usage.startswith("Usage: keras-bert"), usage
        shutil.copyfile(Path(__file__).with_name("use.py"), scratch / "use.py")
        print(run(programs / "python", "use.py", cwd=scratch, env=alone), end="")
    print(f"pip install without extras: {len(packages)} packages: {', '.join(packages)}")
    if len(packages) > MOST:
        sys.exit(f"These are more than {MOST}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
