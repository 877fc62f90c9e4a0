// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/local_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "emulator/ccl/arithmetic.h"

namespace keel::emulator::ccl {

Status LocalRank::reach(const Operation::Part& part, uint32_t peer, uint64_t offset, uint64_t piece,
                        std::vector<Access>& accesses, const std::byte** out_data) const {
  Device* const device = clique_->device(peer);
  Status status;
  if (device != nullptr) {
    // A peer's loss or bad address fails this stream, but this device continues.
    const Status alive = device->alive();
    if (!alive.ok()) return {Code::kUnavailable, alive.text()};
    std::byte* data = nullptr;
    status = accesses.emplace_back(device->memory()).reach(part.call.send + offset, piece, &data);
    *out_data = data;
  } else {
    status = part.trouble;
    if (status.ok() && (offset > part.sent.size() || piece > part.sent.size() - offset)) {
      status = {Code::kFailed, fmt::format("sent {} bytes, not {}", part.sent.size(), piece)};
    }
    *out_data = part.sent.data() + offset;
  }
  if (status.ok()) return status;
  const Code code = peer == rank_ ? status.code() : Code::kUnavailable;
  return {code, fmt::format("rank {}: {}", peer, status.text())};
}

Status LocalRank::compute(const Membership& self) {
  Status status = clique_->check(*self.operation);
  if (!status.ok()) return status;
  const std::vector<Operation::Part>& parts = self.operation->parts;
  const Call& own = self.part().call;
  const uint64_t piece = own.count * own.element();
  std::vector<std::byte>& result = self.part().result;
  result.resize(result_bytes(own, rank_, world()));
  if (result.empty()) return {};
  if (own.collective == Collective::kSplit) {
    const SplitResult place = clique_->place_of(*self.operation, rank_);
    std::memcpy(result.data(), &place, sizeof(place));
    return {};
  }
  std::vector<Access> accesses;
  accesses.reserve(world());
  if (own.collective == Collective::kReceive) {
    const std::byte* data = nullptr;
    status = reach(parts[0], own.root, 0, piece, accesses, &data);
    if (status.ok()) std::memcpy(result.data(), data, piece);
    return status;
  }
  std::vector<const std::byte*> sources;
  std::vector<double> factors;
  const bool is_broadcast = own.collective == Collective::kBroadcast;
  const bool has_pieces =
      own.collective == Collective::kReduceScatter || own.collective == Collective::kAllToAll;
  for (uint32_t peer = 0; peer < world(); ++peer) {
    if (is_broadcast && peer != own.root) continue;
    const std::byte* data = nullptr;
    status = reach(parts[peer], peer, has_pieces ? rank_ * piece : 0, piece, accesses, &data);
    if (!status.ok()) return status;
    sources.push_back(data);
    factors.push_back(parts[peer].call.factor);
  }
  if (reduces(own.collective)) {
    const Device* const device = clique_->device(rank_);
    if (device != nullptr && !device->options().computes) {
      std::fill(result.begin(), result.end(), std::byte{kPoison});
      return {};
    }
    reduce(own.type, own.reduction, sources, factors, own.count, result.data());
    return {};
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    std::memcpy(result.data() + i * piece, sources[i], piece);
  }
  return {};
}

}  // namespace keel::emulator::ccl
