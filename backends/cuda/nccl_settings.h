// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_NCCL_SETTINGS_H_
#define KEEL_BACKENDS_CUDA_NCCL_SETTINGS_H_

#include <keel/abi.h>

#include <optional>
#include <string>
#include <string_view>

namespace keel::cuda {

// What NCCL is told of each communicator that it makes, those of a split included; it chooses what
// is not set. Members are those of ncclConfig_t, whose words its documentation explains.
struct NcclSettings {
  std::optional<int> cga_cluster_size;
  std::optional<int> min_ctas;
  std::optional<int> max_ctas;
  std::string net_name;  // empty: not set

  // From KEEL_NCCL_CGA_CLUSTER_SIZE, KEEL_NCCL_MIN_CTAS, KEEL_NCCL_MAX_CTAS and KEEL_NCCL_NET_NAME.
  // An empty value is none.
  keel_status read_environment();
  // The setting |key| of an instance, "nccl_min_ctas" and its like, which goes before the
  // environment. False where it is none of these, and nothing was done.
  bool take(std::string_view key, const char* value, keel_status* out_status);
  // Once all were read: whether they go together.
  keel_status check() const;
  bool any() const { return cga_cluster_size || min_ctas || max_ctas || !net_name.empty(); }
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_NCCL_SETTINGS_H_
