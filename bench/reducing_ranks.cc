// SPDX-License-Identifier: Apache-2.0
#include "bench/reducing_ranks.h"

#include <algorithm>
#include <stdexcept>

namespace keel::bench {

ReducingRanks::Rank::Rank(Device device, uint64_t count, float value)
    : stream(device),
      send(Buffer::of<float>(device, count)),
      receive(Buffer::of<float>(device, count)) {
  stream.fill(send, value);
  stream.fill(receive, 0.0f);
  stream.synchronize();
}

ReducingRanks::ReducingRanks(std::span<const Device> devices, uint64_t count,
                             const keel_comm_options* options)
    : count_(count), comms_(Communicator::all(devices, options)) {
  for (const Device& device : devices) {
    const auto value = static_cast<float>(ranks_.size() + 1);
    sum_ += value;
    ranks_.emplace_back(device, count, value);
  }
}

void ReducingRanks::run() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& of = ranks_[rank];
    comms_[rank].all_reduce(of.send.data(), of.receive.data(), count_, KEEL_FLOAT32, KEEL_SUM,
                            of.stream);
  }
  for (const Rank& rank : ranks_) rank.stream.synchronize();
}

void ReducingRanks::check_sums() {
  std::vector<float> sums(count_);
  for (Rank& rank : ranks_) {
    rank.stream.download(sums, rank.receive);
    rank.stream.synchronize();
    if (std::count(sums.begin(), sums.end(), sum_) != static_cast<std::ptrdiff_t>(count_)) {
      throw std::runtime_error("all_reduce gave a wrong sum on " + rank.send.device().name());
    }
  }
}

}  // namespace keel::bench
