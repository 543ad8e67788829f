"""Whether a broker may be stopped: what its partitions, coordinators and open transactions lose while it is away."""
