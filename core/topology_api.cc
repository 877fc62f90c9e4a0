// SPDX-License-Identifier: Apache-2.0
// The C functions of the machine's topology.
#include "core/api.h"
#include "core/chip.h"
#include "core/topology.h"

using keel::api_call;
using keel::failure;
using keel::Ref;
using keel::Runtime;
using keel::Status;

keel_status keel_topology_get(const char* synthetic, char* out_text, uint64_t* in_out_size) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(in_out_size)
    std::string json;
    KEEL_RETURN_IF_ERROR(keel::describe_topology(synthetic, Runtime::get().devices(), &json));
    return keel::return_text(json, out_text, in_out_size);
  });
}

keel_status keel_device_chip(keel_device device, uint32_t* out_chip) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_chip)
    Ref<keel::Device> found;
    KEEL_RETURN_IF_ERROR(keel::find_device(device, "device", &found));
    const auto devices = Runtime::get().devices();
    std::vector<keel_device_info> infos;
    size_t index = devices.size();
    for (size_t i = 0; i < devices.size(); ++i) {
      infos.push_back(devices[i]->info());
      if (devices[i] == found) index = i;
    }
    if (index == devices.size()) return failure(KEEL_INTERNAL, "{} is not listed", found->name());
    *out_chip = keel::number_chips(infos)[index];
    return {};
  });
}
