// SPDX-License-Identifier: Apache-2.0
#include "parallel/store.h"

#include <algorithm>
#include <utility>

namespace keel::parallel {
namespace {

constexpr size_t kDrains = 2;  // units whose gradients may wait for the lane, at levels 2 and 3

keel_tensor scalar_of(const keel_tensor& vector, size_t index) {
  return reshaped(elements_of(vector, static_cast<int64_t>(index), 1), {});
}

}  // namespace

Store::Store(Memory& memory, const Layout& layout, const StoreSettings& settings,
             const StoreChannels& channels)
    : memory_(memory),
      stream_(memory.stream()),
      layout_(layout),
      settings_(settings),
      channels_(channels),
      lane_(stream_.device()),
      urgent_lane_(stream_.device(), /*priority=*/-1),
      states_(layout.units.size()) {
  int64_t total = 0;
  for (size_t unit = 0; unit < states_.size(); ++unit) {
    starts_.push_back(total);
    total += padded(unit);
  }
  if (level() < 3) all_values_ = memory_.zeroes({total}, Use::kValues);
  if (level() < 2) all_gradients_ = memory_.zeroes({total}, Use::kGradients);
  for (size_t unit = 0; unit < states_.size(); ++unit) {
    if (level() >= 2) {
      states_[unit].gradient_shard = memory_.zeroes({shard(unit)}, Use::kGradients);
    }
    if (level() < 3) continue;
    states_[unit].value_shard = memory_.zeroes({shard(unit)}, Use::kValues);
    states_[unit].gathered.emplace();
  }
  const auto units = static_cast<int64_t>(states_.size());
  squares_ = memory_.zeroes({units});
  found_ = memory_.take({units}, KEEL_INT32);
  clear(stream_, found_);
}

Store::~Store() {
  // The lanes may still read gradients that are about to be freed in the stream's order.
  try {
    lane_.synchronize();
    urgent_lane_.synchronize();
  } catch (const Error&) {
    // The failure has been reported where the step waited.
  }
}

int64_t Store::padded(size_t unit) const {
  const int64_t size = layout_.units[unit].size;
  if (level() == 0) return size;
  const int64_t grain = kUnitAlignment * channels_.data.ranks();
  return (size + grain - 1) / grain * grain;
}

void Store::lane_waits() {
  ready_.record(stream_);
  lane_.wait(ready_);
}

// ---- steps

void Store::begin_step(int64_t micro_batches) {
  micro_batches_ = micro_batches;
  completed_ = 0;
  for (State& state : states_) {
    state.releases = 0;
    if (state.gradient_shard) clear(stream_, state.gradient_shard);
  }
  if (all_gradients_) clear(stream_, all_gradients_);
  clear(stream_, squares_);
  clear(stream_, found_);
}

void Store::end_step() {
  if (!bucket_.empty()) reduce_bucket(/*urgent=*/true);
  drain(0);
  for (Stream* lane : {&lane_, &urgent_lane_}) {
    lane_done_.record(*lane);
    channels_.data.wait(stream_, lane_done_);
  }
}

// ---- values

void Store::gather(size_t unit) {
  State& state = states_[unit];
  if (state.values) return;
  state.values = memory_.take({padded(unit)}, KEEL_FLOAT32, Use::kValues);
  lane_waits();
  if (channels_.data.ranks() > 1) {
    channels_.data.all_gather(state.value_shard.view().data, state.values.view().data, shard(unit),
                              lane_);
  } else {
    lane_.copy(lane_.device(), state.values.view().data, lane_.device(),
               state.value_shard.view().data, static_cast<uint64_t>(padded(unit)) * sizeof(float));
  }
  state.gathered->record(lane_);
  state.gathering = true;
}

void Store::acquire_values(size_t unit, size_t next) {
  if (level() < 3) return;
  State& state = states_[unit];
  gather(unit);
  if (next != kNone) gather(next);
  if (std::exchange(state.gathering, false)) channels_.data.wait(stream_, *state.gathered);
  ++state.uses;
}

void Store::release_values(size_t unit) {
  if (level() < 3) return;
  State& state = states_[unit];
  if (--state.uses > 0) return;
  state.values.reset();
  state.rounded.reset();
}

// ---- gradients

void Store::acquire_gradients(size_t unit) {
  if (level() < 2 || states_[unit].gradients) return;
  drain(kDrains);
  states_[unit].gradients = memory_.zeroes({padded(unit)}, Use::kGradients);
}

void Store::release_gradients(size_t unit) {
  State& state = states_[unit];
  const bool is_last = ++state.releases == micro_batches_;
  if (level() >= 2 || is_last) complete(unit);
}

void Store::complete(size_t unit) {
  const keel_tensor flat = level() >= 2 ? states_[unit].gradients.view()
                                        : elements_of(all_gradients_, starts_[unit], padded(unit));
  if (settings_.check_gradients) {
    const keel_tensor squares = scalar_of(squares_, unit);
    ops::sum_of_squares(
        stream_,
        {.x = flat, .before = squares, .total = squares, .found = scalar_of(found_, unit)});
  }
  const int64_t partial = layout_.units[unit].partial_end;
  if (partial > 0 && channels_.tensor.ranks() > 1) {
    channels_.tensor.all_reduce(flat.data, partial, stream_);
  }
  ++completed_;
  if (level() == 0) {
    if (channels_.data.ranks() == 1) return;
    // A bucket is one range of memory.
    if (!bucket_.empty() && bucket_.back() != unit + 1) reduce_bucket(/*urgent=*/false);
    bucket_.push_back(unit);
    int64_t elements = 0;
    for (const size_t each : bucket_) elements += padded(each);
    if (completed_ < states_.size() &&
        elements * static_cast<int64_t>(sizeof(float)) >= settings_.bucket_bytes) {
      reduce_bucket(/*urgent=*/false);
    }
    return;
  }
  if (intercept) {
    intercept(unit, [this, unit] { reduce_unit(unit); });
  } else {
    reduce_unit(unit);
  }
}

void Store::reduce_bucket(bool urgent) {
  const size_t lowest = bucket_.back();
  int64_t elements = 0;
  for (const size_t unit : bucket_) elements += padded(unit);
  bucket_.clear();
  Stream& lane = urgent ? urgent_lane_ : lane_;
  const Channel& channel = urgent ? channels_.urgent_data : channels_.data;
  const auto reduce = [&] {
    ready_.record(stream_);
    lane.wait(ready_);
    channel.all_reduce(elements_of(all_gradients_, starts_[lowest], elements).data, elements, lane);
  };
  if (intercept) {
    intercept(lowest, reduce);
  } else {
    reduce();
  }
}

void Store::reduce_unit(size_t unit) {
  State& state = states_[unit];
  const int64_t own = shard(unit), rank = channels_.data.rank();
  if (level() == 1) {
    if (channels_.data.ranks() == 1) return;
    lane_waits();
    const keel_tensor flat = elements_of(all_gradients_, starts_[unit], padded(unit));
    channels_.data.reduce_scatter(flat.data, elements_of(flat, rank * own, own).data, own, lane_);
    return;
  }
  // In place: this rank's part of the whole gradient becomes the sum.
  const keel_tensor part = elements_of(state.gradients, rank * own, own);
  lane_waits();
  if (channels_.data.ranks() > 1) {
    channels_.data.reduce_scatter(state.gradients.view().data, part.data, own, lane_);
  }
  ops::add(lane_, {.a = state.gradient_shard, .b = part, .c = state.gradient_shard});
  Draining& draining = draining_.emplace_back();
  draining.gradients = std::exchange(state.gradients, Tensor());
  draining.done.record(lane_);
}

void Store::drain(size_t keep) {
  while (draining_.size() > keep) {
    channels_.data.wait(stream_, draining_.front().done);
    draining_.pop_front();
  }
}

// ---- views

keel_tensor Store::view(const keel_tensor& flat, size_t id) const {
  const Parameter& parameter = layout_.parameters[id];
  return make_tensor(elements_of(flat, parameter.offset, parameter.size()).data,
                     static_cast<keel_dtype>(flat.dtype), parameter.shard_shape());
}

keel_tensor Store::whole_values(size_t unit) const {
  return level() < 3 ? elements_of(all_values_, starts_[unit], padded(unit))
                     : states_[unit].values.view();
}

keel_tensor Store::value(size_t id) const {
  return view(whole_values(layout_.parameters[id].unit), id);
}

keel_tensor Store::product_value(size_t id) {
  if (!settings_.rounded) return value(id);
  const size_t unit = layout_.parameters[id].unit;
  State& state = states_[unit];
  if (!state.rounded) {
    state.rounded = memory_.take({padded(unit)}, KEEL_BFLOAT16, Use::kValues);
    ops::cast(stream_, {.x = whole_values(unit), .y = state.rounded});
  }
  return view(state.rounded, id);
}

keel_tensor Store::product_value_pair(size_t first, size_t second) {
  keel_tensor both = product_value(first);
  both.shape[0] += layout_.parameters[second].shard_shape()[0];
  return both;
}

keel_tensor Store::gradient(size_t id) const {
  const size_t unit = layout_.parameters[id].unit;
  return view(level() < 2 ? elements_of(all_gradients_, starts_[unit], padded(unit))
                          : states_[unit].gradients.view(),
              id);
}

keel_tensor Store::value_pair(size_t first, size_t second) const {
  keel_tensor both = value(first);
  both.shape[0] += layout_.parameters[second].shard_shape()[0];
  return both;
}

keel_tensor Store::gradient_pair(size_t first, size_t second) const {
  keel_tensor both = gradient(first);
  both.shape[0] += layout_.parameters[second].shard_shape()[0];
  return both;
}

// ---- the optimizer's part

int64_t Store::owned_size(size_t unit) const {
  return level() == 0 ? padded(unit) : shard(unit);
}

Store::Owned Store::owned(size_t unit) const {
  const State& state = states_[unit];
  const int64_t size = layout_.units[unit].size, count = owned_size(unit);
  Owned owned;
  owned.begin = level() == 0 ? 0 : std::min(size, channels_.data.rank() * count);
  owned.end = std::min(size, owned.begin + count);
  const int64_t start = starts_[unit] + (level() == 0 ? 0 : channels_.data.rank() * count);
  owned.values = level() == 3 ? state.value_shard.view() : elements_of(all_values_, start, count);
  owned.gradients =
      level() >= 2 ? state.gradient_shard.view() : elements_of(all_gradients_, start, count);
  return owned;
}

void Store::publish_values() {
  for (State& state : states_) state.rounded.reset();
  if (level() == 0 || level() == 3 || channels_.data.ranks() == 1) return;
  lane_waits();
  for (size_t unit = 0; unit < states_.size(); ++unit) {
    void* const whole = elements_of(all_values_, starts_[unit], padded(unit)).data;
    channels_.data.all_gather(owned(unit).values.data, whole, shard(unit), lane_);
  }
  lane_done_.record(lane_);
  channels_.data.wait(stream_, lane_done_);
}

// ---- the host's copies

void Store::upload(size_t unit, const std::vector<float>& values) {
  states_[unit].rounded.reset();
  std::vector<float> whole = values;
  whole.resize(static_cast<size_t>(padded(unit)), 0.0F);
  const int64_t own = owned_size(unit);
  const bool sharded = level() == 3;
  const float* const source = whole.data() + (sharded ? channels_.data.rank() * own : 0);
  const keel_tensor target = sharded ? states_[unit].value_shard.view()
                                     : elements_of(all_values_, starts_[unit], padded(unit));
  stream_.copy(stream_.device(), target.data, Device(), source,
               static_cast<uint64_t>(count_of(target)) * sizeof(float));
  stream_.synchronize();
}

std::vector<float> Store::download(const keel_tensor& flat, size_t unit) {
  std::vector<float> values(static_cast<size_t>(padded(unit)));
  Tensor whole;
  const void* source = flat.data;
  if (count_of(flat) < padded(unit)) {
    whole = memory_.take({padded(unit)});
    channels_.data.communicator().all_gather(
        flat.data, whole.view().data, static_cast<uint64_t>(count_of(flat)), KEEL_FLOAT32, stream_);
    source = whole.view().data;
  }
  stream_.copy(Device(), values.data(), stream_.device(), source, values.size() * sizeof(float));
  stream_.synchronize();
  values.resize(static_cast<size_t>(layout_.units[unit].size));
  return values;
}

std::vector<float> Store::download_values(size_t unit) {
  return download(level() == 3 ? states_[unit].value_shard.view()
                               : elements_of(all_values_, starts_[unit], padded(unit)),
                  unit);
}

std::vector<float> Store::download_gradients(size_t unit) {
  return download(owned(unit).gradients, unit);
}

std::vector<bool> Store::not_finite() {
  std::vector<int32_t> found(states_.size());
  stream_.copy(Device(), found.data(), stream_.device(), found_.view().data,
               found.size() * sizeof(int32_t));
  stream_.synchronize();
  return {found.begin(), found.end()};
}

}  // namespace keel::parallel
