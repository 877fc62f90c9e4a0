// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_operation.h"

#include <algorithm>

namespace keel::cli {
namespace {

using Shape = PerfOperation::Shape;

// Factors as derived in nccl-tests' doc/PERFORMANCE.md.
double one(double) {
  return 1;
}
double twice_around(double world) {
  return 2 * (world - 1) / world;
}
double once_around(double world) {
  return (world - 1) / world;
}

keel_status all_reduce(const PerfCall& c) {
  return keel_all_reduce(c.comm, c.send, c.receive, c.count, c.dtype, c.reduction, c.stream);
}
keel_status reduce(const PerfCall& c) {
  return keel_reduce(c.comm, c.send, c.receive, c.count, c.dtype, c.reduction, c.root, c.stream);
}
keel_status broadcast(const PerfCall& c) {
  return keel_broadcast(c.comm, c.send, c.receive, c.count, c.dtype, c.root, c.stream);
}
keel_status all_gather(const PerfCall& c) {
  return keel_all_gather(c.comm, c.send, c.receive, c.count, c.dtype, c.stream);
}
keel_status reduce_scatter(const PerfCall& c) {
  return keel_reduce_scatter(c.comm, c.send, c.receive, c.count, c.dtype, c.reduction, c.stream);
}
keel_status all_to_all(const PerfCall& c) {
  return keel_all_to_all(c.comm, c.send, c.receive, c.count, c.dtype, c.stream);
}
keel_status gather(const PerfCall& c) {
  return keel_gather(c.comm, c.send, c.receive, c.count, c.dtype, c.root, c.stream);
}
keel_status scatter(const PerfCall& c) {
  return keel_scatter(c.comm, c.send, c.receive, c.count, c.dtype, c.root, c.stream);
}
keel_status send_recv(const PerfCall& c) {
  return keel_send_recv(c.comm, c.send, c.count, (c.rank + 1) % c.world, c.receive, c.count,
                        (c.rank + c.world - 1) % c.world, c.dtype, c.stream);
}
keel_status barrier(const PerfCall& c) {
  return keel_barrier(c.comm, c.stream);
}

// clang-format off
constexpr PerfOperation kOperations[] = {
    // name             shape                  reduces rooted to_all in_place
    {"all_reduce",      Shape::kAll,           true,   false, true,  true,  twice_around, all_reduce},
    {"reduce",          Shape::kAll,           true,   true,  false, true,  one,          reduce},
    {"broadcast",       Shape::kAll,           false,  true,  true,  true,  one,          broadcast},
    {"all_gather",      Shape::kGather,        false,  false, true,  true,  once_around,  all_gather},
    {"reduce_scatter",  Shape::kReduceScatter, true,   false, true,  true,  once_around,  reduce_scatter},
    {"all_to_all",      Shape::kExchange,      false,  false, true,  true,  once_around,  all_to_all},
    {"gather",          Shape::kGather,        false,  true,  false, true,  once_around,  gather},
    {"scatter",         Shape::kScatter,       false,  true,  true,  true,  once_around,  scatter},
    {"send_recv",       Shape::kShift,         false,  false, true,  false, one,          send_recv},
    {"barrier",         Shape::kNothing,       false,  false, true,  false, one,          barrier},
};
// clang-format on

}  // namespace

PerfCounts PerfOperation::counts(uint64_t bytes, uint64_t element_bytes, uint32_t world) const {
  // nccl-tests aligns each rank's part for its widest loads: parts are rounded down, possibly to
  // zero.
  constexpr uint64_t kPartBytes = 16;
  const uint64_t all = bytes / element_bytes;
  const uint64_t part = all / world - all / world % (kPartBytes / element_bytes);
  switch (shape) {
    case Shape::kAll:
    case Shape::kShift:
      return {all, all, all, 0, 0};
    case Shape::kGather:
      return {part, part, part * world, part, 0};
    case Shape::kReduceScatter:
    case Shape::kScatter:
      return {part, part * world, part, 0, part};
    case Shape::kExchange:
      return {part, part * world, part * world, 0, 0};
    case Shape::kNothing:
      break;
  }
  return {};
}

PerfSource PerfOperation::source(const PerfCounts& counts, uint64_t at, uint32_t rank,
                                 uint32_t world, uint32_t root) const {
  const uint64_t rest = counts.receive - at;
  const uint64_t mine = rank * counts.count;  // start of this rank's pieces
  switch (shape) {
    case Shape::kAll:
      return {reduces, root, at, rest};
    case Shape::kReduceScatter:
      return {true, 0, mine + at, rest};
    case Shape::kScatter:
      return {false, root, mine + at, rest};
    case Shape::kShift:
      return {false, (rank + world - 1) % world, at, rest};
    case Shape::kGather:
    case Shape::kExchange: {
      const uint64_t within = at % counts.count;
      return {false, static_cast<uint32_t>(at / counts.count),
              shape == Shape::kGather ? within : mine + within, counts.count - within};
    }
    case Shape::kNothing:
      break;
  }
  return {};
}

double PerfOperation::algorithm_bandwidth(const PerfCounts& counts, uint64_t element_bytes,
                                          double seconds) const {
  if (seconds <= 0) return 0;
  const uint64_t elements = std::max(counts.send, counts.receive);
  return static_cast<double>(elements * element_bytes) / 1e9 / seconds;
}

const PerfOperation* find_perf_operation(const std::string& name) {
  const auto* found = std::find_if(std::begin(kOperations), std::end(kOperations),
                                   [&](const PerfOperation& each) { return name == each.name; });
  return found == std::end(kOperations) ? nullptr : found;
}

std::vector<std::string> perf_operation_names() {
  std::vector<std::string> names;
  for (const PerfOperation& each : kOperations) names.emplace_back(each.name);
  return names;
}

}  // namespace keel::cli
