// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_rank.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <new>

namespace keel::cli {
namespace {

constexpr uint64_t kBlock = 1 << 20;  // bytes drawn and verified at a time
constexpr std::byte kNoResult{0xa5};

}  // namespace

PerfBuffer::PerfBuffer(Device device, uint64_t bytes, bool foreign) : device_(device) {
  bytes = std::max<uint64_t>(bytes, 1);
  if (!foreign) {
    own_.emplace(device, KEEL_MEMORY_DEVICE, bytes);
    data_ = static_cast<std::byte*>(own_->data());
    return;
  }
  constexpr uint64_t kPage = 4096;
  const uint64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  if (keel_host_register(device.get(), data_, rounded) != KEEL_OK) {
    const Error error(KEEL_UNSUPPORTED, std::string("--foreign: ") + keel_last_error());
    std::free(data_);
    throw error;
  }
  foreign_ = data_;
}

PerfBuffer::~PerfBuffer() {
  if (foreign_ == nullptr) return;
  keel_host_unregister(device_.get(), foreign_);
  std::free(foreign_);
}

PerfRank::PerfRank(Device device, uint32_t rank, uint32_t world, uint64_t buffer_bytes,
                   bool foreign, int64_t timeout_ns)
    : device_(device),
      rank_(rank),
      world_(world),
      foreign_(foreign),
      timeout_ns_(timeout_ns),
      send_(device, buffer_bytes, foreign),
      receive_(device, buffer_bytes, foreign),
      stream_(device) {}

std::byte* PerfRank::send_data(const PerfStep& step) const {
  if (!step.in_place) return send_.data();
  return receive_.data() + rank_ * step.counts.send_offset * kit::dtype_size(step.dtype);
}

std::byte* PerfRank::receive_data(const PerfStep& step) const {
  if (!step.in_place) return receive_.data();
  return receive_.data() + rank_ * step.counts.receive_offset * kit::dtype_size(step.dtype);
}

PerfData PerfRank::data(const PerfStep& step, uint64_t seed) const {
  std::optional<keel_reduction> reduction;
  if (step.operation->reduces) reduction = step.reduction;
  return {step.dtype, reduction, world_, seed};
}

keel_reduction PerfRank::reduction_of(const PerfStep& step) {
  if (step.reduction != KEEL_PREMUL_SUM || !step.operation->reduces) return step.reduction;
  if (!premul_) {
    keel_reduction made = 0;
    check(keel_premul_sum_create(comm_.get(), PerfData::factor(rank_), &made));
    premul_ = made;
  }
  return *premul_;
}

void PerfRank::start(const PerfStep& step) {
  PerfCall call;
  call.comm = comm_.get();
  call.stream = stream_.get();
  call.send = send_data(step);
  call.receive = receive_data(step);
  call.count = step.counts.count;
  call.dtype = step.dtype;
  call.reduction = reduction_of(step);
  call.root = step.root;
  call.rank = rank_;
  call.world = world_;
  check(step.operation->call(call));
}

void PerfRank::synchronize() const {
  check(keel_stream_synchronize(stream_.get(), timeout_ns_));
}

void PerfRank::upload(std::byte* to, std::span<const std::byte> from) {
  if (foreign_) {
    synchronize();
    std::memcpy(to, from.data(), from.size());
    return;
  }
  check(keel_copy(stream_.get(), device_.get(), to, KEEL_HOST, from.data(), from.size()));
  synchronize();
}

void PerfRank::download(std::span<std::byte> to, const std::byte* from) {
  if (foreign_) {
    synchronize();
    std::memcpy(to.data(), from, to.size());
    return;
  }
  check(keel_copy(stream_.get(), KEEL_HOST, to.data(), device_.get(), from, to.size()));
  synchronize();
}

void PerfRank::fill(const PerfStep& step, uint64_t seed) {
  const uint32_t element_bytes = kit::dtype_size(step.dtype);
  const PerfData drawn = data(step, seed);
  const uint64_t all = std::max(step.counts.send, step.counts.receive) * element_bytes;
  host_.resize(kBlock);
  for (const PerfBuffer* buffer : {&send_, &receive_}) {
    std::fill(host_.begin(), host_.end(), kNoResult);
    for (uint64_t at = 0; at < all; at += kBlock) {
      upload(buffer->data() + at, std::span(host_).first(std::min(kBlock, all - at)));
    }
  }
  const uint64_t bytes = step.counts.send * element_bytes;
  for (uint64_t at = 0; at < bytes; at += kBlock) {
    const std::span<std::byte> block = std::span(host_).first(std::min(kBlock, bytes - at));
    drawn.fill(rank_, at / element_bytes, block);
    upload(send_data(step) + at, block);
  }
}

uint64_t PerfRank::verify(const PerfStep& step, uint64_t seed) {
  if (!step.operation->has_result(rank_, step.root)) return 0;
  const uint32_t element_bytes = kit::dtype_size(step.dtype);
  const PerfData drawn = data(step, seed);
  host_.resize(kBlock);
  expected_.resize(kBlock);
  uint64_t wrong = 0;
  const uint64_t bytes = step.counts.receive * element_bytes;
  for (uint64_t at = 0; at < bytes; at += kBlock) {
    const std::span<std::byte> block = std::span(host_).first(std::min(kBlock, bytes - at));
    const std::span<std::byte> expected = std::span(expected_).first(block.size());
    download(block, receive_data(step) + at);
    drawn.expect(*step.operation, step.counts, rank_, step.root, at / element_bytes, expected);
    wrong += count_wrong(block, expected, element_bytes);
  }
  return wrong;
}

}  // namespace keel::cli
