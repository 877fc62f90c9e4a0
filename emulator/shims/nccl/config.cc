// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/nccl/config.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "emulator/shims/nccl/library.h"

namespace keel::emulator::nccl {
namespace {

constexpr unsigned int kMagic = 0xcafebeef;
constexpr int kFirstWithCtas = 21700;

std::mutex g_mutex;
ncclConfig_t g_last = NCCL_CONFIG_INITIALIZER;

bool is_set(int member) {
  return member != NCCL_CONFIG_UNDEF_INT;
}

}  // namespace

ncclResult_t read_config(const ncclConfig_t& given, int version, ncclConfig_t* out_config) {
  const ncclConfig_t undefined = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t config = undefined;
  config.magic = 0;
  // A caller compiled with an older header passes a shorter struct.
  std::memcpy(&config, &given, std::min(given.size, sizeof(config)));
  if (config.magic != kMagic) {
    return fail(ncclInvalidArgument, "the ncclConfig_t was not initialised");
  }
  if (config.version < kFirstWithCtas || version < kFirstWithCtas) {
    config.cgaClusterSize = undefined.cgaClusterSize;
    config.minCTAs = undefined.minCTAs;
    config.maxCTAs = undefined.maxCTAs;
    config.netName = undefined.netName;
  }
  if (is_set(config.blocking) && config.blocking != 0 && config.blocking != 1) {
    return fail(ncclInvalidArgument, fmt::format("config blocking is {}", config.blocking));
  }
  if (is_set(config.cgaClusterSize) && config.cgaClusterSize < 0) {
    return fail(ncclInvalidArgument,
                fmt::format("config cgaClusterSize is {}", config.cgaClusterSize));
  }
  // Undefined is below any number, so minCTAs without maxCTAs is refused, as by NCCL.
  if ((is_set(config.minCTAs) && config.minCTAs <= 0) ||
      (is_set(config.maxCTAs) && config.maxCTAs <= 0) || config.minCTAs > config.maxCTAs) {
    return fail(ncclInvalidArgument,
                fmt::format("config minCTAs/maxCTAs are {}/{}", config.minCTAs, config.maxCTAs));
  }
  if (config.netName != undefined.netName && strcasecmp(config.netName, "Socket") != 0) {
    return fail(ncclInvalidUsage, fmt::format("network {} not found", config.netName));
  }
  const std::lock_guard lock(g_mutex);
  g_last = *out_config = config;
  return ncclSuccess;
}

}  // namespace keel::emulator::nccl

void keel_emulated_nccl_last_config(ncclConfig_t* out_config) {
  const std::lock_guard lock(keel::emulator::nccl::g_mutex);
  *out_config = keel::emulator::nccl::g_last;
}
