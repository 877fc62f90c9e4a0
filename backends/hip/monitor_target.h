// SPDX-License-Identifier: Apache-2.0
// The management library, as the layer of backends/gpu sees it.
#ifndef KEEL_BACKENDS_HIP_MONITOR_TARGET_H_
#define KEEL_BACKENDS_HIP_MONITOR_TARGET_H_

#include <keel/abi.h>

#include <string>

namespace keel::gpu {

// Reports nothing: no management library is opened, and the text of the health says so.
class Monitor {
 public:
  explicit Monitor(const std::string& /*folder*/) {}

  void examine(const std::string& /*pci_address*/, keel_device_health* /*out_health*/,
               std::string* out_text) const {
    *out_text += (out_text->empty() ? "" : "; ");
    *out_text += "no management library is asked";
  }
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_HIP_MONITOR_TARGET_H_
