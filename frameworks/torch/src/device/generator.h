// SPDX-License-Identifier: Apache-2.0
// torch.Generator of a keel device: the key and the counter of Philox.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_GENERATOR_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_GENERATOR_H_

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <optional>

namespace keel_torch::device {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  // 16 bytes: the seed, then the offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Reserves the counters of |elements| numbers, four a counter, and returns the first counter. The
  // caller holds mutex_.
  uint64_t reserve(uint64_t elements);

 private:
  Generator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// The key and the first counter of one call's random numbers.
struct Philox {
  int64_t seed;
  int64_t offset;
};
// Reserves |elements| numbers of |generator|, or of the default generator of |device|.
Philox reserve(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
               int64_t elements);

const at::Generator& default_generator(c10::DeviceIndex index);

}  // namespace keel_torch::device

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_GENERATOR_H_
