"""Runs the other libraries' programs on the pages "Coming from …", against the libraries themselves.

`make theirs`: they are installed into `.venv-peers` first. A script answers for their models, so
nothing needs a key.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from page_blocks import HOME, Block, blocks_to_run, fits

VENV = HOME / ".venv-peers"
PYTHON = VENV / "bin" / "python"


def main() -> None:
    blocks = [block for block in blocks_to_run("docs/*.md") if "theirs" in block.notes]
    wanted = sorted({name for block in blocks for name in block.notes["theirs"].split()})
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([PYTHON, *pip, *wanted], check=True)
    failed = [block for block in blocks if not is_as_shown(block)]
    sys.exit(1 if failed else 0)


def is_as_shown(block: Block) -> bool:
    """Whether a program prints what its page says."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "theirs.py"
        program.write_text(block.notes.get("setup", "") + "\n" + block.code)
        done = subprocess.run(
            [PYTHON, program], cwd=folder, capture_output=True, text=True, check=False
        )
    is_right = done.returncode == 0 and fits(block.prints or "", done.stdout)
    print(f"{block}: {'as shown' if is_right else done.stdout + done.stderr}")
    return is_right


if __name__ == "__main__":
    main()
