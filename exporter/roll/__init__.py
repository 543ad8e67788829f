"""Judge whether a broker may be stopped, by the losses of its partitions, coordinators and open transactions."""
