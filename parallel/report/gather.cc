// SPDX-License-Identifier: Apache-2.0
// All ranks' spans, as records of fixed size through the device's memory.
#include <algorithm>
#include <cstring>
#include <keel/parallel/report.hpp>

namespace keel::parallel {
inline namespace v0 {
namespace {

struct Header {
  char device[64];
  double model_flops, peak_flops_per_s;
  uint64_t spans;
};

// |own| of each rank, one after the other; all ranks pass the same number of bytes.
std::vector<char> all_gather(Communicator& world, const Stream& stream, std::span<const char> own) {
  const Device device = stream.device();
  std::vector<char> all(own.size() * world.world());
  const Buffer send(device, KEEL_MEMORY_DEVICE, own.size());
  const Buffer receive(device, KEEL_MEMORY_DEVICE, all.size());
  check(keel_copy(stream.get(), device.get(), send.data(), Device().get(), own.data(), own.size()));
  world.all_gather(send.data(), receive.data(), own.size(), KEEL_UINT8, stream);
  check(keel_copy(stream.get(), Device().get(), all.data(), device.get(), receive.data(),
                  all.size()));
  stream.synchronize();
  return all;
}

}  // namespace

std::vector<RankSteps> gather_steps(Communicator& world, const Stream& stream,
                                    const RankSteps& own) {
  Header header = {};
  own.device.copy(header.device, sizeof(header.device) - 1);
  header.model_flops = own.model_flops;
  header.peak_flops_per_s = own.peak_flops_per_s;
  header.spans = own.spans.size();
  std::vector<char> bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  const std::vector<char> headers = all_gather(world, stream, bytes);

  std::vector<RankSteps> ranks(world.world());
  std::vector<uint64_t> counts;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::memcpy(&header, headers.data() + rank * sizeof(header), sizeof(header));
    ranks[rank].device = header.device;
    ranks[rank].model_flops = header.model_flops;
    ranks[rank].peak_flops_per_s = header.peak_flops_per_s;
    counts.push_back(header.spans);
  }
  const uint64_t most = *std::max_element(counts.begin(), counts.end());
  if (most == 0) return ranks;
  bytes.assign(most * sizeof(Span), 0);
  std::copy_n(reinterpret_cast<const char*>(own.spans.data()), own.spans.size() * sizeof(Span),
              bytes.begin());
  const std::vector<char> all = all_gather(world, stream, bytes);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].spans.resize(counts[rank]);
    if (counts[rank] == 0) continue;
    std::memcpy(ranks[rank].spans.data(), all.data() + rank * bytes.size(),
                counts[rank] * sizeof(Span));
  }
  return ranks;
}

}  // namespace v0
}  // namespace keel::parallel
