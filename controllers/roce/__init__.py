"""Controllers of RDMA collection: sessions of switches with the queue pairs of collectors."""
