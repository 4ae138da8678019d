#!/bin/bash
# Installs missing dependencies: Debian packages, and the project's Python environment in .venv.
# Usage: ./setup.sh [--dev] [--rdma]
#   --dev    install also dependencies of the tests and checks
#   --rdma   install also libibverbs, librdmacm, and a VM with the kernel's RoCE stack (Debian 12, amd64)
# Takes a fraction of a second if nothing is missing. Debian 12, Ubuntu 22.04 and 24.04.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

PACKAGES=(mininet iproute2 iputils-ping ethtool gcc libc6-dev python3-venv)
PACKAGES+=(clang libbpf-dev iptables nftables) # XDP programs, and firewalls for comparison
RDMA_PACKAGES=(ibverbs-providers python3-pyverbs rdmacm-utils qemu-system-x86 busybox-static)
DIST_PACKAGES=/usr/lib/python3/dist-packages
READY=.venv/telemark-ready # written last: inputs of the complete environment, and its files

fail() {
    echo "setup.sh: error: $*" >&2
    exit 2
}

install_packages() {
    local missing=() package
    command -v python >/dev/null || PACKAGES+=(python-is-python3)
    for package in "${PACKAGES[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    local root=()
    if [[ $EUID -ne 0 ]]; then
        command -v sudo >/dev/null || fail "cannot install ${missing[*]}: run it as root"
        root=(sudo)
    fi
    echo "setup.sh: installing ${missing[*]}"
    "${root[@]}" apt-get -qq update || fail "apt-get update failed (no network?)"
    # Without recommended packages: Mininet recommends a virtual switch that Telemark does not use.
    local output
    output=$("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install \
        --no-install-recommends -y "${missing[@]}" 2>&1) ||
        fail "apt-get could not install ${missing[*]}: $(tail -n 1 <<<"$output")"
}

make_environment() {
    local extra=$1 wanted=$2
    # Without $READY an earlier setup was interrupted: rebuild the environment from scratch.
    [[ -e $READY && -x .venv/bin/python ]] && .venv/bin/python -c 'import pip' 2>/dev/null ||
        /usr/bin/python3 -m venv --clear .venv || fail "could not create .venv"
    rm -f "$READY"
    echo "setup.sh: installing Python packages into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".$extra" ||
        fail "pip could not install the Python packages (no network?)"
    # Before 3.12, Python has the distutils that Mininet imports; setuptools would replace it, and
    # slow down the start of each experiment by a third.
    .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' ||
        .venv/bin/python -m pip uninstall -qq --yes setuptools
    # Mininet is not in a package index, and the environment must not see other Debian packages.
    local site
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    ln -sfn $DIST_PACKAGES/mininet "$site/mininet"
    .venv/bin/python -c 'import mininet.net' || fail "Mininet cannot be imported"
    { echo "$wanted" && ls -d .venv/bin/* "$site"/* | grep -v __pycache__; } >"$READY.new"
    # With sudo, root would own Python's caches, and the user could not remove them.
    local caches
    mapfile -t caches < <(find . -path './.*' -prune -o -name '*.py' -printf '%h/__pycache__\n' | sort -u)
    mkdir -p "${caches[@]}"
    if [[ -n ${SUDO_UID:-} ]]; then
        chown -R "$SUDO_UID:$SUDO_GID" .venv telemark.egg-info "${caches[@]}"
    fi
    mv "$READY.new" "$READY"
}

# Installs what --rdma needs: see telemark/backends/real/vm/kernel.py.
add_rdma() {
    ln -sfn $DIST_PACKAGES/pyverbs \
        "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/pyverbs"
    ! .venv/bin/python -c 'from telemark.backends.real.vm import kernel; kernel.find()' 2>/dev/null || return 0
    local package
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: //p')
    [[ -n $package ]] || fail "--rdma needs Debian's package linux-image-amd64, which is not available"
    echo "setup.sh: extracting $package to .vm"
    mkdir -p .vm
    rm -f .vm/*.deb
    (cd .vm && apt-get -qq -o APT::Sandbox::User=root download "$package") || fail "could not download $package"
    .venv/bin/python -m telemark.backends.real.vm.kernel .vm/*.deb || fail "could not unpack $package"
    rm .vm/*.deb
    [[ -z ${SUDO_UID:-} ]] || chown -R "$SUDO_UID:$SUDO_GID" .vm
}

# Returns whether all installed files and folders still exist.
is_complete() {
    local path
    while read -r path; do
        [[ -e $path ]] || return 1
    done < <(tail -n +2 "$READY")
}

extra="[store]" rdma="" # an experiment stores reports in Parquet files
for argument; do
    case "$argument" in
    --dev) extra="[dev]" ;;
    --rdma) rdma=yes && PACKAGES+=("${RDMA_PACKAGES[@]}") ;;
    *) fail "unknown argument: $argument (usage: ./setup.sh [--dev] [--rdma])" ;;
    esac
done
command -v apt-get >/dev/null ||
    fail "no apt-get: Debian 12 or Ubuntu 22.04 or 24.04 is needed"
[[ -w . ]] || fail "$PWD is not writable: run it with sudo"

exec 9<setup.sh
flock 9 # one at a time
install_packages
# A change of the path, Python or these files requires a new setup.
state="$PWD $(/usr/bin/python3 -V) $(cat pyproject.toml setup.py setup.sh | sha256sum)"
if [[ -e $READY ]] && ! is_complete; then
    echo "setup.sh: .venv is incomplete: rebuilding it"
    rm "$READY"
fi
ready=$(head -n 1 "$READY" 2>/dev/null || true)
case "$ready" in
"$state [dev]") ;;
"$state "*) [[ $extra == "[store]" ]] || make_environment "$extra" "$state $extra" ;;
*" [dev]") make_environment "[dev]" "$state [dev]" ;;
*) make_environment "$extra" "$state $extra" ;;
esac
[[ -z $rdma ]] || add_rdma
