#!/bin/bash
# Installs missing dependencies, runs all experiments, and builds results/index.html.
# Usage: sudo ./run_all.sh [--quick] [--only NAME ...] [--system SYSTEM] [--again] ... (see --help)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

./setup.sh
exec .venv/bin/python -m telemark.run_all "$@"
