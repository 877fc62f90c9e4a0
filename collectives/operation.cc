#include "collectives/operation.h"

#include <algorithm>
#include <array>
#include <keel/plugin_kit.hpp>

namespace keel {

const char* collective_name(keel_collective collective) {
  constexpr std::array<const char*, KEEL_COLLECTIVE_COUNT> kNames = {
      "all_reduce", "reduce",       "broadcast", "all_gather", "reduce_scatter",
      "all_to_all", "all_to_all_v", "send",      "recv",       "barrier"};
  return collective < kNames.size() ? kNames[collective] : "unknown";
}

const char* reduction_name(keel_reduction reduction) {
  constexpr std::array<const char*, KEEL_REDUCTION_COUNT> kNames = {"sum", "prod", "min",
                                                                    "max", "avg",  "premul_sum"};
  return reduction < kNames.size() ? kNames[reduction] : "unknown";
}

namespace {

bool reduces(keel_collective collective) {
  return collective == KEEL_ALL_REDUCE || collective == KEEL_REDUCE_SCATTER;
}

}  // namespace

bool Request::matches(const Request& other) const {
  return collective == other.collective && dtype == other.dtype && count == other.count &&
         root == other.root && (!reduces(collective) || reduction == other.reduction);
}

std::string Request::describe() const {
  if (collective == KEEL_BARRIER) return "barrier()";
  std::string text =
      fmt::format("{}({} {}", collective_name(collective), count, kit::dtype_name(dtype));
  if (reduces(collective)) text += fmt::format(", {}", reduction_name(reduction));
  if (collective == KEEL_BROADCAST) text += fmt::format(", root {}", root);
  return text + ")";
}

uint64_t Request::send_bytes(uint32_t rank, uint32_t world) const {
  const uint64_t bytes = count * kit::dtype_size(dtype);
  if (collective == KEEL_BROADCAST) return rank == root ? bytes : 0;
  return collective == KEEL_REDUCE_SCATTER ? bytes * world : bytes;
}

uint64_t Request::receive_bytes(uint32_t world) const {
  const uint64_t bytes = count * kit::dtype_size(dtype);
  return collective == KEEL_ALL_GATHER ? bytes * world : bytes;
}

std::vector<Segment> segments_of(const Request& request, uint32_t world) {
  const uint64_t bytes = request.count * kit::dtype_size(request.dtype);
  if (bytes == 0 || request.collective == KEEL_BARRIER) return {};
  const auto all_at = [world](uint64_t offset) {
    std::vector<Place> places;
    for (uint32_t rank = 0; rank < world; ++rank) places.push_back({rank, offset});
    return places;
  };
  std::vector<Segment> segments;
  switch (request.collective) {
    case KEEL_ALL_REDUCE:
      segments.push_back({bytes, all_at(0), all_at(0)});
      break;
    case KEEL_BROADCAST:
      segments.push_back({bytes, {{request.root, 0}}, all_at(0)});
      break;
    case KEEL_ALL_GATHER:
      for (uint32_t rank = 0; rank < world; ++rank) {
        segments.push_back({bytes, {{rank, 0}}, all_at(rank * bytes)});
      }
      break;
    case KEEL_REDUCE_SCATTER:
      for (uint32_t rank = 0; rank < world; ++rank) {
        segments.push_back({bytes, all_at(rank * bytes), {{rank, 0}}});
      }
      break;
    default:
      break;
  }
  return segments;
}

Status check_requests(const std::vector<Request>& requests) {
  const auto agreeing = [&](const Request& request) {
    return std::count_if(requests.begin(), requests.end(),
                         [&](const Request& other) { return request.matches(other); });
  };
  const auto world = static_cast<std::ptrdiff_t>(requests.size());
  if (agreeing(requests[0]) == world) return {};
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    const size_t other = rank == 0 ? 1 : 0;
    if (world > 2 && agreeing(requests[rank]) == 1 && agreeing(requests[other]) == world - 1) {
      return failure(KEEL_INVALID_ARGUMENT, "mismatch: rank {} called {}, all others {}", rank,
                     requests[rank].describe(), requests[other].describe());
    }
  }
  std::string text = "mismatch:";
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    text +=
        fmt::format("{} rank {} called {}", rank == 0 ? "" : ",", rank, requests[rank].describe());
  }
  return {KEEL_INVALID_ARGUMENT, text};
}

}  // namespace keel
