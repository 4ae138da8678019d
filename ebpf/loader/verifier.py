"""Shortens the log of the verifier to two things: the reason, and the line of C code."""

import re

# Matches "12: (71) r0 = *(u8 *)(r1 +100)". The state of registers may follow.
_INSTRUCTION = re.compile(r"\d+: ?(\([0-9a-f]{2}\)|R\d|$)")
_SOURCE = re.compile(r"; (?P<text>.*?)(?: @ (?P<place>\S+:\d+))?$")
_OTHER = re.compile(
    r"processed \d+ insns|max_states|from \d+ to \d+|R\d+(_\w+)?=|Func#|Validating|mark_precise|"
    r"last_idx|parent |regs=|-- |func#|libbpf: |verification time|stack depth|\d+: $|caller|callee|"
    r"frame\d"
)
_PROGRAM = re.compile(r"libbpf: prog '(?P<name>\w+)': BPF program load failed")
_FUNCTION = re.compile(r"(unknown func|invalid func|helper call is not allowed)")


def find_reason(said: str, release: str) -> str | None:
    """Return from libbpf's messages why an object was rejected; None if the reason is unknown."""
    if failed := re.search(r"libbpf: map '(\S+)': failed to create: ?(.*?)\(-?\d+\)", said):
        return f"map {failed[1]} cannot be made: {failed[2]}"
    log = re.search(r"-- BEGIN PROG LOAD LOG --\n(.*?)-- END PROG LOAD LOG --", said, re.DOTALL)
    program = _PROGRAM.search(said)
    if log is None or program is None:
        return None
    text = f"program {program['name']}: {shorten_log(log[1])}"
    return f"{text} (Linux {release} lacks it)" if _FUNCTION.search(text) else text


def shorten_log(log: str) -> str:
    """Return the last reason in a log, and the line of C code for this reason."""
    source = place = ""
    why: list[str] = []
    for line in log.splitlines():
        if match := _SOURCE.match(line):
            source, place, why = match["text"].strip(), match["place"] or "", []
        elif _INSTRUCTION.match(line):
            why = []
        elif line.strip() and not _OTHER.match(line):
            why.append(line.strip())
    at = f", at {place + ': ' if place else ''}{source}" if source else ""
    return ("; ".join(why[-2:]) or "the verifier gives no reason") + at
