"""`python -m ebpf.loader FILE ...`: checks BPF C files with clang, for ./run_tests.sh --check."""

import sys

from ebpf.loader.compile import compile_program, find_source
from ebpf.loader.errors import LoadError


def main() -> None:
    for name in sys.argv[1:]:
        try:
            with compile_program(find_source(name)):
                pass
        except LoadError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
