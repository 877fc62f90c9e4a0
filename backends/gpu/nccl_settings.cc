// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/nccl_settings.h"

#include <gpu_target.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>

namespace keel::gpu {
namespace {

// The limits of all NCCL versions: clusters of 8 blocks, and 64 channels; older versions have 32
// channels and use at most these.
constexpr int kLargestCluster = 8;
constexpr int kMostCtas = 64;

struct Number {
  const char* key;
  const char* variable;
  std::optional<int> NcclSettings::*member;
  int least;
  int most;
};
constexpr Number kNumbers[] = {
    {KEEL_GPU_CCL "_cga_cluster_size", "KEEL_" KEEL_GPU_CCL_UPPER "_CGA_CLUSTER_SIZE",
     &NcclSettings::cga_cluster_size, 0, kLargestCluster},
    {KEEL_GPU_CCL "_min_ctas", "KEEL_" KEEL_GPU_CCL_UPPER "_MIN_CTAS", &NcclSettings::min_ctas, 1,
     kMostCtas},
    {KEEL_GPU_CCL "_max_ctas", "KEEL_" KEEL_GPU_CCL_UPPER "_MAX_CTAS", &NcclSettings::max_ctas, 1,
     kMostCtas},
};
constexpr const char* kNetKey = KEEL_GPU_CCL "_net_name";
constexpr const char* kNetVariable = "KEEL_" KEEL_GPU_CCL_UPPER "_NET_NAME";

// |name| is the name of the setting or variable, for the error text.
keel_status read(const Number& number, const char* name, const char* text,
                 std::optional<int>* out_value) {
  if (*text == '\0') {
    out_value->reset();
    return KEEL_OK;
  }
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < number.least ||
      value > number.most) {
    return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": %s=%.32s is no number from %d to %d", name,
                     text, number.least, number.most);
  }
  *out_value = value;
  return KEEL_OK;
}

}  // namespace

keel_status NcclSettings::read_environment() {
  for (const Number& number : kNumbers) {
    const char* const text = secure_getenv(number.variable);
    if (text == nullptr) continue;
    const keel_status status = read(number, number.variable, text, &(this->*number.member));
    if (status != KEEL_OK) return status;
  }
  if (const char* const text = secure_getenv(kNetVariable)) net_name = text;
  return KEEL_OK;
}

bool NcclSettings::take(std::string_view key, const char* value, keel_status* out_status) {
  *out_status = KEEL_OK;
  for (const Number& number : kNumbers) {
    if (key != number.key) continue;
    *out_status = read(number, number.key, value, &(this->*number.member));
    return true;
  }
  if (key != kNetKey) return false;
  net_name = value;
  return true;
}

keel_status NcclSettings::check() const {
  if (!min_ctas) return KEEL_OK;
  // The library compares the two values unconditionally, and an unset value is less than any
  // number.
  if (!max_ctas) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     KEEL_GPU ": " KEEL_GPU_CCL "_min_ctas=%d without " KEEL_GPU_CCL
                              "_max_ctas, which " KEEL_GPU_CCL_UPPER " refuses",
                     *min_ctas);
  }
  if (*min_ctas > *max_ctas) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     KEEL_GPU ": " KEEL_GPU_CCL "_min_ctas=%d is above " KEEL_GPU_CCL
                              "_max_ctas=%d",
                     *min_ctas, *max_ctas);
  }
  return KEEL_OK;
}

}  // namespace keel::gpu
