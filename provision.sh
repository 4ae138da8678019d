#!/bin/bash
# Makes a machine complete: Telemark, p4-utils, and p4c with bmv2 where there are packages of them.
# Usage: ./provision.sh        in a VM (the Vagrantfile calls it), or on any Debian 12, Ubuntu 22.04 or 24.04
# Does only what is missing. What cannot be had here is told in a line; all else stands without it.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

P4UTILS=/opt/p4utils # where telemark/backends/real/p4utils/environment.py looks for it
P4UTILS_SOURCE=git+https://github.com/nsg-ethz/p4-utils@83b118bbae530b31cc74e7fa32f9174f7c0a1184

root=()
[[ $EUID -eq 0 ]] || root=(sudo)

# Runs a command quietly; where it fails, says the first line that tells why.
quietly() {
    local said
    said=$("${root[@]}" "$@" 2>&1) || {
        grep -m 1 -E '^ *(fatal|E|ERROR|error):' <<<"$said" || tail -n 1 <<<"$said"
        return 1
    }
}

install_packages() {
    quietly env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y "$@"
}

# p4lang's package of p4c brings bmv2 (simple_switch, simple_switch_grpc) and PI with it. Its repository
# keeps only the newest of each, so that no version can be asked for.
install_bmv2() {
    local release packages key=/usr/share/keyrings/p4lang.gpg
    release=$(. /etc/os-release && echo "$ID $VERSION_ID $(dpkg --print-architecture)")
    case "$release" in
    "ubuntu 22.04 amd64" | "ubuntu 24.04 amd64") ;;
    *)
        echo "left out: p4lang has packages for Ubuntu on amd64, and this is $release"
        return
        ;;
    esac
    packages=http://download.opensuse.org/repositories/home:/p4lang/xUbuntu_${release:7:5}/
    if ! install_packages curl gnupg ||
        ! curl -fsSL "$packages/Release.key" | gpg --batch --yes --dearmor | "${root[@]}" tee "$key" >/dev/null; then
        "${root[@]}" rm -f "$key"
        echo "left out: $packages cannot be had"
        return
    fi
    echo "deb [signed-by=$key] $packages /" | "${root[@]}" tee /etc/apt/sources.list.d/p4lang.list >/dev/null
    quietly apt-get update -qq && install_packages p4lang-p4c || {
        "${root[@]}" rm -f /etc/apt/sources.list.d/p4lang.list
        echo "left out: p4lang-p4c of $packages cannot be installed"
    }
}

# It pins protobuf and grpcio: an environment of its own, which sees what Debian packages of Python's
# there are (Mininet's, bmv2's).
install_p4utils() {
    install_packages bridge-utils git python3-venv &&
        "${root[@]}" python3 -m venv --system-site-packages "$P4UTILS" &&
        quietly "$P4UTILS/bin/pip" install --quiet --disable-pip-version-check thrift "$P4UTILS_SOURCE" || {
        "${root[@]}" rm -rf "$P4UTILS"
        echo "left out: $P4UTILS_SOURCE cannot be installed"
    }
}

echo "== 1 of 5: Telemark, its packages and its Python environment"
./setup.sh --dev
echo "== 2 of 5: p4c and bmv2"
command -v simple_switch_grpc || install_bmv2
echo "== 3 of 5: p4-utils"
"$P4UTILS/bin/python" -c 'import p4utils; print(p4utils.__path__[0])' 2>/dev/null || install_p4utils
echo "== 4 of 5: the kernel's RoCE stack, in a virtual machine of its own"
./setup.sh --dev --rdma || echo "left out: see the line above"
echo "== 5 of 5: some of the tests"
"${root[@]}" ./run_tests.sh -q tests/stf tests/topologies tests/p4src/test_count_min.py tests/telemark/backends/real/test_application_host.py
cat <<END

Telemark is ready, in $PWD. What next:
    sudo python experiments/ampm_loss.py --quick      # one experiment
    sudo ./run_all.sh --quick                         # all of them; then open results/index.html
    sudo .venv/bin/telemark run --help                # a network that somebody described
END
