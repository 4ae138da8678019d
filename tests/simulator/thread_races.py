"""Meshes on several threads, under ThreadSanitizer.

python thread_races.py [broken]

test_thread_races.py runs this with libtsan preloaded.

The process ends with status RACE if the threads of two partitions access a word in no defined
order. With "broken", the C code sends a frame to another partition as if it were its own partition.
Then the process must end with RACE.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from meshes import Mesh

from minip4.native import build
from minip4.simulator import virtual

OWN = "wire->partition == p->number"


def without_channels(folder: Path) -> None:
    """Let the event queue be built from C code that treats all nodes as one partition."""
    shutil.copytree(virtual.C_FOLDER, folder, dirs_exist_ok=True)
    text = (folder / "loop.c").read_text()
    assert text.count(OWN) == 1
    (folder / "loop.c").write_text(text.replace(OWN, "true"))
    virtual.C_FOLDER = folder


def main() -> None:
    build._mode = lambda sanitize: ("-std=gnu11", "-O1", "-g1", "-fsanitize=thread")
    with TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            without_channels(Path(folder))
        for is_stopped in (True, False):
            mesh = Mesh(1, threads=3, is_stopped=is_stopped)
            for _ in mesh.run():
                pass
            assert mesh.virtual.events_at_once > 1000
            mesh.digest()


if __name__ == "__main__":
    main()
