#!/bin/bash
# Sets up what is missing, runs every experiment, and builds results/index.html.
# Usage: sudo ./run_all.sh [options of the experiments, such as --quick]
# Goes on when an experiment fails; the exit status is the worst of all.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

for argument in "$@"; do
    case "$argument" in
    -h | --help)
        sed -n '2,4s/^# //p' run_all.sh
        exit 0
        ;;
    --out | --out=*)
        echo "run_all.sh: error: --out: each experiment has its own folder in results/" >&2
        exit 2
        ;;
    esac
done

# Why an experiment cannot run with these options on this machine; nothing where it can.
unfit() {
    case "$1" in
    experiments/targets.py)
        if ! command -v simple_switch_grpc >/dev/null || [[ ${*:2} == *virtual* ]]; then
            echo "it needs bmv2 (simple_switch_grpc on PATH) and real time"
        fi
        ;;
    experiments/int_*)
        [[ ${*:2} != *bmv2* ]] || echo "on bmv2 it has no queues to tell of"
        ;;
    esac
}

./setup.sh
worst=0
for script in experiments/[!_]*.py; do
    why=$(unfit "$script" "$@")
    if [[ -n $why ]]; then
        echo "== $script left out: $why"
        continue
    fi
    echo "== $script $*"
    status=0
    .venv/bin/python "$script" "$@" || status=$?
    if [[ $status -ge 128 ]]; then # ended by a signal: so ends this
        exit "$status"
    fi
    [[ $status -le $worst ]] || worst=$status
done
.venv/bin/python -m testbed.results.index results
exit "$worst"
