"""Fat-trees (Al-Fares, Loukissas and Vahdat 2008): fabrics of switches with k ports each."""

from topologies.leaf_spine import LeafSpine


class FatTree(LeafSpine):
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, and k/2 hosts an edge switch.

    Edge switches are the leaves of a LeafSpine, and aggregation switches its spines: names,
    addresses, routes and links' properties are as there. Raises ValueError for an odd k.
    """

    def __init__(self, k: int = 4, **link: float | str) -> None:
        half, rest = divmod(k, 2)
        if rest or k < 2:
            raise ValueError(f"a fat-tree's switches have an even number of ports: got {k}")
        super().__init__(leaves=half, spines=half, hosts=half, pods=k, cores=half, **link)
