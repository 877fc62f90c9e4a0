// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_INSTANCE_H_
#define KEEL_BACKENDS_KUNLUN_INSTANCE_H_

#include <keel/abi.h>

#include <memory>
#include <string>
#include <utility>

#include "backends/kunlun/runtime.h"

namespace keel::kunlun {

// The devices of XRE in one folder. Immutable; thread-safe.
class Instance {
 public:
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  const Runtime& runtime() const { return runtime_; }
  const std::string& bkcl_folder() const { return bkcl_folder_; }
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  Instance(const std::string& folder, std::string bkcl_folder)
      : runtime_(Runtime::of(folder)), bkcl_folder_(std::move(bkcl_folder)) {}

  const Runtime& runtime_;
  const std::string bkcl_folder_;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_INSTANCE_H_
