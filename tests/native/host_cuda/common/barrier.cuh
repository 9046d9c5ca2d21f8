// Barriers of clusters (native/kernels/common/barrier.cuh) on the host.
#pragma once

namespace gpk {

inline void cluster_sync() { host_cuda::t_cluster->sync(); }

}  // namespace gpk
