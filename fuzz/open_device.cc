// SPDX-License-Identifier: Apache-2.0
#include "fuzz/open_device.h"

#include <keel/keel.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/api.h"
#include "fuzz/silent_peer.h"

namespace keel::fuzz {

OpenDevice open_device(const char* backend, uint64_t bytes, uint32_t streams) {
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = backend;
  keel_device handle = {};
  if (keel_set_log(KEEL_LOG_OFF, nullptr, nullptr) != KEEL_OK || keel_init(&options) != KEEL_OK ||
      keel_device_get(0, &handle) != KEEL_OK) {
    std::fprintf(stderr, "keel_init: %s\n", keel_last_error());
    std::abort();
  }
  OpenDevice opened;
  require(find_device(handle, "device", &opened.device), "device");
  void* allocated = nullptr;
  require(opened.device->memory().alloc(KEEL_MEMORY_DEVICE, bytes, &allocated), "alloc");
  opened.memory = static_cast<char*>(allocated);
  std::vector<Ref<Stream>> leased(streams);
  for (Ref<Stream>& stream : leased) require(opened.device->lease_stream(&stream), "stream");
  for (Ref<Stream>& stream : leased) opened.device->return_stream(std::move(stream));
  return opened;
}

}  // namespace keel::fuzz
