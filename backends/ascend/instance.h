// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_INSTANCE_H_
#define KEEL_BACKENDS_ASCEND_INSTANCE_H_

#include <keel/abi.h>

#include <memory>
#include <string>
#include <utility>

#include "backends/ascend/sdk.h"

namespace keel::ascend {

// One set of settings and the SDK for the settings. Immutable; thread-safe.
class Instance {
 public:
  // "library_folder": the folder of libascendcl.so and of the libraries beside it; default
  // KEEL_ASCEND_LIBRARY_FOLDER, else the dynamic loader's search path.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  // The first call opens and initialises the SDK, which may take seconds.
  const Sdk& sdk() const { return Sdk::of(folder_); }
  // Fills every member except the header.
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  explicit Instance(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_INSTANCE_H_
