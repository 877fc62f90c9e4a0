#ifndef KEEL_BACKENDS_CUDA_INSTANCE_H_
#define KEEL_BACKENDS_CUDA_INSTANCE_H_

#include <keel/abi.h>

#include <memory>
#include <string>

#include "backends/cuda/driver.h"

namespace keel::cuda {

// One set of settings, and with it one driver. Thread-safe.
class Instance {
 public:
  // "library_folder": where libcuda.so.1 is; else the environment's KEEL_CUDA_LIBRARY_FOLDER,
  // else where the dynamic loader looks.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);

  // Opened and started by the first who asks, which may take seconds.
  Driver& driver() const { return Driver::of(folder_); }
  // Fills in all but the header.
  keel_status describe(uint32_t ordinal, keel_device_info* out_info) const;

 private:
  explicit Instance(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_INSTANCE_H_
