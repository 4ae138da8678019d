"""Controllers for RDMA: sessions between switches and the queue pairs of collectors."""
