//! The node agent: a pod is real processes on its own loopback address.
