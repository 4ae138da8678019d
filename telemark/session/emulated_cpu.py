"""Detection of an emulated CPU whose AVX2 gather instructions are wrong, and a remedy for NumPy.

If the index register of an AVX2 gather instruction has the number 4, QEMU before 9.1 ignores this
register, because 4 means "no index" in other instructions
(gitlab.com/qemu-project/qemu/-/issues/2474). NumPy's argsort with AVX2 then returns a wrong order,
or reads at a wrong address.
"""

import os
import subprocess
import sys

from minip4.native import build

DISABLE = "NPY_DISABLE_CPU_FEATURES"
FEATURES = ("X86_V3", "AVX2")  # names in NumPy: first since 2.4, second before 2.4
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
    """Return whether this CPU executes AVX2 gather instructions wrongly. Raises ToolchainError."""
    return subprocess.run([build.program([], PROBE)], check=False).returncode != 0


def restart_without_gathers() -> None:
    """If this CPU executes AVX2 gathers wrongly, restart this process, with AVX2 disabled in NumPy.

    NumPy selects its code when it is imported, and child processes inherit the selection. This
    function does nothing on a CPU with correct gathers, or in a process that was restarted. Raises
    ToolchainError.
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
