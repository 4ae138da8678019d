"""Controllers of RDMA collection: sessions of switches with collectors' queue pairs."""
