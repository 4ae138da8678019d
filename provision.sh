#!/bin/bash
# Installs Telemark, p4-utils, and, if packages are available, p4c with bmv2.
# Usage: ./provision.sh        in a VM (the Vagrantfile calls it), or on Debian 12, Ubuntu 22.04 or 24.04
# Installs only missing components, and reports each component that it cannot install in one line.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

P4UTILS=/opt/p4utils # see telemark/backends/real/p4utils/environment.py
P4UTILS_SOURCE=git+https://github.com/nsg-ethz/p4-utils@83b118bbae530b31cc74e7fa32f9174f7c0a1184

root=()
[[ $EUID -eq 0 ]] || root=(sudo)

# Runs a command quietly; prints its first error line if it fails.
quietly() {
    local output
    output=$("${root[@]}" "$@" 2>&1) || {
        grep -m 1 -E '^ *(fatal|E|ERROR|error):' <<<"$output" || tail -n 1 <<<"$output"
        return 1
    }
}

install_packages() {
    quietly env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y "$@"
}

# p4lang's package of p4c depends on bmv2 (simple_switch, simple_switch_grpc) and PI. Its repository keeps
# only the newest version of each package.
install_bmv2() {
    local release packages key=/usr/share/keyrings/p4lang.gpg
    release=$(. /etc/os-release && echo "$ID $VERSION_ID $(dpkg --print-architecture)")
    case "$release" in
    "ubuntu 22.04 amd64" | "ubuntu 24.04 amd64") ;;
    *)
        echo "left out: p4c and bmv2: p4lang has no packages for $release (only Ubuntu on amd64)"
        return
        ;;
    esac
    packages=http://download.opensuse.org/repositories/home:/p4lang/xUbuntu_${release:7:5}/
    if ! install_packages curl gnupg ||
        ! curl -fsSL "$packages/Release.key" | gpg --batch --yes --dearmor | "${root[@]}" tee "$key" >/dev/null; then
        "${root[@]}" rm -f "$key"
        echo "left out: p4c and bmv2: could not download $packages"
        return
    fi
    echo "deb [signed-by=$key] $packages /" | "${root[@]}" tee /etc/apt/sources.list.d/p4lang.list >/dev/null
    quietly apt-get update -qq && install_packages p4lang-p4c || {
        "${root[@]}" rm -f /etc/apt/sources.list.d/p4lang.list
        echo "left out: p4c and bmv2: could not install p4lang-p4c of $packages"
    }
}

# p4-utils pins protobuf and grpcio; therefore it has its own environment, which also sees Debian's Python
# packages (Mininet, bmv2).
install_p4utils() {
    install_packages bridge-utils git python3-venv &&
        "${root[@]}" python3 -m venv --system-site-packages "$P4UTILS" &&
        quietly "$P4UTILS/bin/pip" install --quiet --disable-pip-version-check thrift "$P4UTILS_SOURCE" || {
        "${root[@]}" rm -rf "$P4UTILS"
        echo "left out: p4-utils: could not install $P4UTILS_SOURCE"
    }
}

echo "== 1 of 5: Telemark: packages and Python environment"
./setup.sh --dev
echo "== 2 of 5: p4c and bmv2"
command -v simple_switch_grpc || install_bmv2
echo "== 3 of 5: p4-utils"
"$P4UTILS/bin/python" -c 'import p4utils; print(p4utils.__path__[0])' 2>/dev/null || install_p4utils
echo "== 4 of 5: virtual machine with the kernel's RoCE stack"
./setup.sh --dev --rdma || echo "left out: the virtual machine: see the line above"
echo "== 5 of 5: a selection of the tests"
"${root[@]}" ./run_tests.sh -q tests/stf tests/topologies tests/p4src/test_count_min.py tests/telemark/backends/real/test_application_host.py
cat <<END

Telemark is ready in $PWD. Next steps:
    sudo python experiments/ampm_loss.py --quick      # run one experiment
    sudo ./run_all.sh --quick                         # run all experiments, then open results/index.html
    sudo .venv/bin/telemark run --help                # run a network description of another tool
END
