#include "bench/onednn_peer.h"

#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace keel::bench {

bool OnednnPeer::is_here() {
  return true;
}

std::string OnednnPeer::describe() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

void OnednnPeer::multiply(int64_t size, const float* a, const float* b, float* c,
                          uint32_t threads) {
  omp_set_num_threads(static_cast<int>(threads));
  dnnl::error::wrap_c_api(dnnl_sgemm('N', 'N', size, size, size, /*alpha=*/1.0f, a, size, b, size,
                                     /*beta=*/0.0f, c, size),
                          "dnnl_sgemm failed");
}

}  // namespace keel::bench
