"""Telemark's packages and requirements: a wheel requires minip4, an editable install contains it.

pyproject.toml has the rest.
"""

import build_backend
from setuptools import find_namespace_packages, setup
from setuptools_scm import get_version

PACKAGES = ["telemark", "topologies", "controllers", "collectors", "importers", "ebpf", "p4src"]
REQUIREMENTS = [
    "finsy>=0.30,<0.31",  # P4Runtime client, and the protobuf stubs of both sides
    "matplotlib>=3.8,<4",
    "numpy>=1.26,<3",
    "prometheus-client>=0.21,<1",  # metrics of collectors
    "pyroute2>=0.7.12,<0.10",  # netlink: interfaces and their counters
    "rich>=13.7,<16",  # progress lines and tables
    "scapy>=2.5,<2.9",  # packets and pcap files
    "setuptools>=68,<83; python_version >= '3.12'",  # Debian's mininet imports distutils
]
COMMANDS = ["telemark = telemark.cli:main"]

version = get_version(fallback_version="0.1.0", local_scheme="no-local-version")
if build_backend.is_editable:
    PACKAGES += ["minip4", "experiments", "benchmarks"]  # scripts of the checkout
    COMMANDS.append("minip4 = minip4.cli:main")
else:
    REQUIREMENTS.append(f"minip4=={version}")

setup(
    version=version,
    packages=find_namespace_packages(
        include=[name for package in PACKAGES for name in (package, f"{package}.*")],
        exclude=["*.__pycache__"],
    ),
    package_data={"": ["*"]},
    install_requires=REQUIREMENTS,
    entry_points={"console_scripts": COMMANDS},
)
