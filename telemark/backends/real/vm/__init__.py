"""Virtual machine with Debian's kernel, for kernel features such as RDMA."""
