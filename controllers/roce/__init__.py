"""Controllers of RDMA collection: sessions between switches and the queue pairs of collectors."""
