"""Detection of an emulated CPU with wrong AVX2 gather instructions, and a workaround for NumPy.

QEMU before 9.1 ignores the index register of an AVX2 gather instruction if its number is 4, since
this number means "no index" in other instructions (gitlab.com/qemu-project/qemu/-/issues/2474).
NumPy's argsort with AVX2 then returns a wrong order, or reads at a wrong address.
"""

import os
import subprocess
import sys

from minip4.native import build

DISABLE = "NPY_DISABLE_CPU_FEATURES"
FEATURES = ("X86_V3", "AVX2")  # names in NumPy: since 2.4, and before
PROBE = """
#if defined(__x86_64__)
int main(void)
{
    const int table[4] = {10, 11, 12, 13};
    const long long index[4] = {3, 2, 1, 0};
    int found[4] = {13, 12, 11, 10};
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        __asm__ volatile("vmovdqu (%1), %%ymm4\\n\\t"
                         "vpcmpeqd %%xmm2, %%xmm2, %%xmm2\\n\\t"
                         "vpxor %%xmm1, %%xmm1, %%xmm1\\n\\t"
                         "vpgatherqd %%xmm2, (%2, %%ymm4, 4), %%xmm1\\n\\t"
                         "vmovdqu %%xmm1, (%0)\\n\\t"
                         "vzeroupper"
                         : : "r"(found), "r"(index), "r"(table)
                         : "xmm1", "xmm2", "xmm4", "memory");
    return found[0] != 13 || found[1] != 12 || found[2] != 11 || found[3] != 10;
}
#else
int main(void) { return 0; }
#endif
"""


def has_wrong_gathers() -> bool:
    """Return whether this CPU computes AVX2 gathers wrongly. Raises ToolchainError."""
    return subprocess.run([build.program([], PROBE)], check=False).returncode != 0


def restart_without_gathers() -> None:
    """Restart this process with a NumPy that does not use AVX2, if the CPU's gathers are wrong.

    NumPy selects its code at import; child processes inherit the selection. Does nothing on a CPU
    with correct gathers, and in a restarted process. Raises ToolchainError.
    """
    disabled = os.environ.get(DISABLE, "").replace(",", " ").split()
    if {*FEATURES} <= {*disabled} or not has_wrong_gathers():
        return
    print(
        "note: the emulator of this CPU computes AVX2 gather instructions wrongly (like QEMU "
        "before 9.1); NumPy runs without AVX2",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    os.environ[DISABLE] = " ".join([*disabled, *FEATURES])
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
