#!/bin/bash
# Steps of test_clean_root.py inside a system that has Python but no compiler. The folder has the
# wheel of minip4, the files of its README, tutorials/ (p4lang/tutorials) and STF scripts for them.
# Usage: clean_root.sh install | run
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

if [[ $1 == install ]]; then
    ! command -v cc gcc clang || { echo "clean_root.sh: error: this system has a compiler"; exit 2; }
    start=$(date +%s%N)
    python3 -m venv p4
    p4/bin/pip install -q "$(ls "$PWD"/*.whl)[cc]"
    installed=$(date +%s%N)
    p4/bin/minip4 test l2.p4 l2.stf
    end=$(date +%s%N)
    echo "pip: $(((installed - start) / 1000000)) ms, first packet: $(((end - start) / 1000000)) ms"
    for name in basic basic_tunnel calc; do
        p4/bin/minip4 test --Wdisable tutorials/exercises/$name/solution/$name.p4 $name.stf
    done
    p4/bin/pip install -q --no-deps 'ptf>=0.12,<0.13' 'scapy>=2.5,<2.9'
else # with the interfaces of the README
    . p4/bin/activate
    minip4 run l2.p4 -i 1@s1-eth1 -i 2@s1-eth2 --counters s1.json >s1.log &
    until grep -s ready s1.log; do sleep 0.05; done
    ptf --test-dir tests --interface 1@h1 --interface 2@h2 l2_ptf 2>&1 | tail -1
    minip4 tables l2
    kill %1
    wait
fi
