#!/bin/bash
# Sets up what is missing and runs the tests (arguments go to pytest).
# Usage: sudo ./run_tests.sh [pytest's arguments]
#        ./run_tests.sh --check      lint, format, types, C warnings, imports, instead of the tests
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

if [[ ${1:-} == --check ]]; then
    ./setup.sh --dev
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy
    gcc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only \
        -Iminip4/wire/c -Iminip4/ports/c -Iminip4/engine/c -Iminip4/simulator/c -Icollectors/c \
        -Icollectors/roce/c \
        telemark/backends/real/c/*.c minip4/*/c/*.c collectors/*/c/*.c experiments/shared/*/c/*.c \
        benchmarks/speed/c/*.c
    .venv/bin/python -m ebpf.loader ebpf/*/*.bpf.c experiments/shared/*/*.bpf.c
    .venv/bin/python -m pytest tests/test_imports.py
    exit
fi
if [[ $EUID -ne 0 ]]; then
    echo "run_tests.sh: error: root is needed for network namespaces: run it with sudo" >&2
    exit 2
fi
./setup.sh --dev
# Tests start hundreds of processes of Python: each would compile all modules again.
unset PYTHONDONTWRITEBYTECODE
# More of them than cores: tests in real time wait most of their time.
exec .venv/bin/python -m pytest -n 4 --dist worksteal "$@"
