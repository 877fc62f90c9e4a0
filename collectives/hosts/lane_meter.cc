// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/lane_meter.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace keel {

namespace {

// Weight of the fastest lane: steps of 3 %, coarser than the rates are stable.
constexpr uint64_t kFastestShare = 32;

// 1 PB/s, in KiB/s. No lane is faster, and products of rates and weights stay within 64 bits, also
// where a rank tells another rate.
constexpr uint64_t kMostRate = uint64_t{1} << 40;

// Whether |more| is noticeably more than |less|.
bool is_noticeable(uint64_t less, uint64_t more) {
  return more * 100 > less * (100 + kNoticeablePercent);
}

}  // namespace

LaneShares revise_lane_shares(const LaneShares& now, std::vector<uint64_t> rates) {
  for (uint64_t& rate : rates) rate = std::min(rate, kMostRate);
  const bool are_known = std::all_of(rates.begin(), rates.end(), [](uint64_t r) { return r != 0; });
  if (!are_known || rates.empty()) return now;
  // Lane i takes time in proportion to weight(i) / rate(i).
  const auto weight = [&](size_t i) -> uint64_t { return now.size() == rates.size() ? now[i] : 1; };
  const auto is_faster = [&](size_t a, size_t b) {
    return weight(a) * rates[b] < weight(b) * rates[a];
  };
  std::vector<size_t> lanes(rates.size());
  std::iota(lanes.begin(), lanes.end(), size_t{0});
  const auto [fastest, slowest] = std::minmax_element(lanes.begin(), lanes.end(), is_faster);
  if (!is_noticeable(weight(*fastest) * rates[*slowest], weight(*slowest) * rates[*fastest])) {
    return now;
  }
  std::stable_sort(lanes.begin(), lanes.end(),
                   [&](size_t a, size_t b) { return rates[a] > rates[b]; });
  LaneShares shares(rates.size());
  uint64_t most = 0;  // mean rate of the fastest group
  for (size_t begin = 0, end = 0; begin < lanes.size(); begin = end) {
    uint64_t sum = 0;
    do {
      sum += rates[lanes[end]];
      ++end;
    } while (end < lanes.size() && !is_noticeable(rates[lanes[end]], rates[lanes[begin]]));
    const uint64_t mean = sum / (end - begin);
    if (begin == 0) most = mean;
    const uint64_t share = std::max<uint64_t>(1, (mean * kFastestShare + most / 2) / most);
    for (size_t i = begin; i < end; ++i) shares[lanes[i]] = static_cast<uint32_t>(share);
  }
  const bool are_equal =
      std::all_of(shares.begin(), shares.end(), [&](uint32_t share) { return share == shares[0]; });
  return are_equal ? LaneShares() : shares;
}

LaneMeter::LaneMeter(uint32_t lanes, LaneShares set)
    : lanes_(lanes), set_(std::move(set)), shares_(set_) {}

void LaneMeter::note(uint64_t bytes, int64_t ns) {
  ++operations_;
  if (bytes == 0) return;
  const double seconds = static_cast<double>(std::max<int64_t>(ns, 1)) * 1e-9;
  const double rate = static_cast<double>(bytes) / 1024 / seconds;
  const auto sample = std::max<uint64_t>(1, static_cast<uint64_t>(rate));
  if (samples_.size() < kMostSamples) {
    samples_.push_back(sample);
    return;
  }
  samples_[oldest_] = sample;
  oldest_ = (oldest_ + 1) % kMostSamples;
}

uint64_t LaneMeter::rate() const {
  if (samples_.empty()) return 0;
  std::vector<uint64_t> sorted = samples_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void LaneMeter::agree(const std::vector<uint64_t>& rates) {
  LaneShares revised = revise_lane_shares(shares_, rates);
  if (revised == shares_) {
    interval_ = std::min(2 * interval_, kMostInterval);
  } else {
    interval_ = kFirstInterval;
    samples_.clear();  // of other parts
    oldest_ = 0;
  }
  next_ = operations_ + interval_;
  const std::lock_guard lock(mutex_);
  shares_ = std::move(revised);
  rates_ = rates;
}

void LaneMeter::explain(JsonWriter& json) const {
  constexpr uint64_t kWhole = 1 << 20;
  const std::lock_guard lock(mutex_);
  json.key("lane_shares").begin_array();
  if (lanes_ > 1) {
    for (const Piece& piece : divide_by_lanes(kWhole, /*element=*/1, lanes_, shares_)) {
      json.rounded(static_cast<double>(piece.count) / kWhole, 4);
    }
  }
  json.end_array();
  json.key("lane_shares_from");
  json.text(!set_.empty() ? "set" : rates_.empty() ? "default" : "measured");
  json.key("lane_rates").begin_array();
  for (const uint64_t rate : rates_) json.rounded(static_cast<double>(rate) * 1024 / 1e6, 4);
  json.end_array();
}

}  // namespace keel
