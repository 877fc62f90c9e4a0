// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_INSTANCE_H_
#define KEEL_BACKENDS_LEVEL_ZERO_INSTANCE_H_

#include <keel/abi.h>

#include <memory>
#include <string>

#include "backends/level_zero/loader.h"

namespace keel::gpu {

// The GPUs of the loader of one folder. Immutable; thread-safe.
class Instance {
 public:
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  const Loader& loader() const { return loader_; }
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  explicit Instance(const std::string& folder) : loader_(Loader::of(folder)) {}

  const Loader& loader_;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_INSTANCE_H_
