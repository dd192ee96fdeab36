"""Makes or refreshes `.venv` of a checkout: `python tools/environment.py run` or `dev`.

`run` is what the demo needs, `dev` adds the checks and the tests. Nothing happens when the pins are those
of the last time, so every make target can call this first.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PINS = [ROOT / name for name in ("pyproject.toml", "constraints.txt", "oracles.txt")]
EXTRA = {"run": "train", "dev": "dev"}


def fingerprint() -> str:
    """Of all that the environment depends on: pins, interpreter, and the folder, which a venv can't leave."""
    parts = [path.read_bytes() for path in PINS] + [sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def stamp(level: str) -> Path:
    """The file that says that `level` was installed completely."""
    return VENV / f".installed-{level}"


def installed(level: str, key: str) -> bool:
    """Whether the environment holds `level` for these pins (`dev` holds all of `run`)."""
    levels = {level, "dev"}
    return any(stamp(name).is_file() and stamp(name).read_text() == key for name in levels) and PYTHON.exists()


def works() -> bool:
    """Whether the environment is this interpreter's, in this folder, and starts."""
    if not PYTHON.exists():
        return False
    answer = subprocess.run(
        [PYTHON, "-c", "import pip, sys; print(sys.version, sys.prefix, sep='\\n')"],
        capture_output=True,
        text=True,
    )
    return answer.returncode == 0 and answer.stdout == f"{sys.version}\n{VENV}\n"


def create() -> None:
    """Makes an empty environment, over whatever is there."""
    try:
        import ensurepip  # noqa: F401  (Debian and Ubuntu package it separately)
        import venv
    except ImportError as error:
        sys.exit(
            f"error: {sys.executable} has no module {error.name!r}, so .venv can't be made."
            " On Debian and Ubuntu: apt install python3-venv."
            " Or name another Python: make PYTHON=/path/to/python3"
        )
    venv.create(VENV, clear=True, with_pip=True)


def pip(*arguments: str) -> None:
    """Runs pip of the environment and stops here if it fails; what it prints is the reason."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    code = subprocess.run(command, cwd=ROOT).returncode
    if code:
        sys.exit(f"error: pip stopped with exit code {code} (its message is above). The next make tries again.")


def install(level: str) -> None:
    """Brings the environment to the pins."""
    if works():
        say(f".venv: refreshing the packages for '{level}', as the pins or the level changed")
    else:
        say(f".venv: making it and installing the packages for '{level}' (once; up to a few minutes)")
        create()
    for name in EXTRA:
        stamp(name).unlink(missing_ok=True)
    pip("-c", "constraints.txt", "-e", f".[{EXTRA[level]}]")
    if level == "dev":
        say(".venv: adding the packages that tests compare with (oracles.txt)")
        pip("--no-deps", "-r", "oracles.txt")


def say(text: str) -> None:
    """One line to the terminal, in order with what pip prints."""
    print(text, flush=True)


def main(level: str) -> None:
    """Takes a lock first: two makes at once must not install into one folder."""
    key = fingerprint()
    if installed(level, key):
        return
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed(level, key):
            install(level)
            partial = stamp(level).with_suffix(".part")
            partial.write_text(key)
            partial.replace(stamp(level))
            say(f".venv: ready ({PYTHON})")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in EXTRA:
        sys.exit("usage: python tools/environment.py {run,dev}")
    main(sys.argv[1])
