// SPDX-License-Identifier: Apache-2.0
#include "generator.h"

#include <ATen/Functions.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>
#include <mutex>

#include "devices.h"

namespace keel_torch::device {

namespace {

constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);

}  // namespace

Generator::Generator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(kType, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "keel: a generator's state has ", kStateBytes,
              " bytes, not ", state.numel());
  const auto* const bytes = static_cast<const uint8_t*>(state.data());
  std::memcpy(&seed_, bytes, sizeof seed_);
  std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  at::Tensor state = at::empty({kStateBytes}, at::TensorOptions(at::kByte).device(at::kCPU));
  auto* const bytes = state.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, sizeof seed_);
  std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

uint64_t Generator::reserve(uint64_t elements) {
  const uint64_t first = offset_;
  offset_ = (offset_ + (elements + 3) / 4) & (~uint64_t{0} >> 1);
  return first;
}

Generator* Generator::clone_impl() const {
  auto* const copy = new Generator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* const generators = [] {
    auto* const made = new std::array<at::Generator, 16>;
    for (c10::DeviceIndex i = 0; i < 16; ++i) (*made)[i] = at::make_generator<Generator>(i);
    return made;
  }();
  return (*generators)[resolve(index)];
}

Philox reserve(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
               int64_t elements) {
  const at::Generator& used =
      generator.has_value() && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(used.device().type() == kType, "keel: a tensor of keel:", static_cast<int>(device),
              " wants a generator of a keel device, not of ", used.device());
  auto* const own = static_cast<Generator*>(used.unsafeGetGeneratorImpl());
  const std::lock_guard lock(own->mutex_);
  const uint64_t first = own->reserve(elements);
  return {static_cast<int64_t>(own->current_seed()), static_cast<int64_t>(first)};
}

}  // namespace keel_torch::device
