#!/bin/bash
# Installs missing dependencies and runs the tests.
# Usage: sudo ./run_tests.sh [pytest arguments]
#        ./run_tests.sh --check      check lint, format, types, C warnings and imports instead
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

if [[ ${1:-} == --check ]]; then
    ./setup.sh --dev
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy
    gcc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only \
        -Iminip4/wire/c -Iminip4/ports/c -Iminip4/engine/c -Iminip4/simulator/c -Icollectors/c \
        -Icollectors/roce/c -Iminip4/engine/tna/c \
        telemark/backends/real/c/*.c minip4/*/c/*.c minip4/simulator/c/tcp/*.c minip4/engine/tna/c/*.c \
        collectors/*/c/*.c experiments/shared/*/c/*.c benchmarks/speed/c/*.c
    .venv/bin/python -m ebpf.loader ebpf/*/*.bpf.c experiments/shared/*/*.bpf.c
    .venv/bin/python -m pytest tests/test_imports.py
    exit
fi
if [[ $EUID -ne 0 ]]; then
    echo "run_tests.sh: error: network namespaces need root: run it with sudo" >&2
    exit 2
fi
./setup.sh --dev
# Tests start hundreds of Python processes, which would compile all modules again.
unset PYTHONDONTWRITEBYTECODE
# More workers than cores: tests in real time mostly wait.
exec .venv/bin/python -m pytest -n 4 --dist worksteal "$@"
