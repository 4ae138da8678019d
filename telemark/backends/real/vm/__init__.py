"""A virtual machine with Debian's kernel, for what the machine's own kernel may lack: RDMA."""
