// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_NCCL_SETTINGS_H_
#define KEEL_BACKENDS_GPU_NCCL_SETTINGS_H_

#include <keel/abi.h>

#include <optional>
#include <string>
#include <string_view>

namespace keel::gpu {

// Configuration of every NCCL communicator, including communicators made by a split. NCCL chooses
// the settings that are not set. Members are those of ncclConfig_t; see NCCL's documentation.
struct NcclSettings {
  std::optional<int> cga_cluster_size;
  std::optional<int> min_ctas;
  std::optional<int> max_ctas;
  std::string net_name;  // empty: not set

  // Reads KEEL_NCCL_CGA_CLUSTER_SIZE, KEEL_NCCL_MIN_CTAS, KEEL_NCCL_MAX_CTAS and
  // KEEL_NCCL_NET_NAME. An empty value counts as not set.
  keel_status read_environment();
  // Takes the instance setting |key| ("nccl_min_ctas" and the like), which overrides the
  // environment. Returns false, without effect, for any other key.
  bool take(std::string_view key, const char* value, keel_status* out_status);
  // Checks that the settings are consistent. Call after all settings were read.
  keel_status check() const;
  bool any() const { return cga_cluster_size || min_ctas || max_ctas || !net_name.empty(); }
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_NCCL_SETTINGS_H_
