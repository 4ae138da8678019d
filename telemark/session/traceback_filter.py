"""Filter of traceback frames: user code, Telemark, or libraries."""

import sysconfig
from types import FrameType

from telemark import REPOSITORY

TELEMARK = tuple(str(REPOSITORY / folder) for folder in ("telemark", "minip4"))
LIBRARIES = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)

Frames = list[tuple[FrameType, int]]  # frames with line numbers, outermost first


def user_frames(frames: Frames) -> Frames:
    """Select the frames of experiments, controllers and applications."""
    return [at for at in frames if not is_under(at[0], *TELEMARK, *LIBRARIES, "<frozen")]


def is_under(frame: FrameType, *folders: str) -> bool:
    """Return whether a frame's code is in a file below one of the folders."""
    return frame.f_code.co_filename.startswith(folders)
