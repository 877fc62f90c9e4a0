// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/shape.h"

#include <algorithm>

namespace keel::bench::peers {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllToAll:
      return "all_to_all";
  }
  return "";
}

std::optional<Operation> find_operation(std::string_view name) {
  for (const Operation operation : kOperations) {
    if (name == name_of(operation)) return operation;
  }
  return std::nullopt;
}

uint64_t Shape::bytes() const {
  return std::max(send, receive) * sizeof(float);
}

Shape make_shape(Operation operation, uint64_t bytes, uint32_t world) {
  const uint64_t whole = std::max<uint64_t>(bytes / sizeof(float), 1);
  const uint64_t piece = std::max<uint64_t>(whole / world, 1);
  switch (operation) {
    case Operation::kAllReduce:
    case Operation::kBroadcast:
      return {operation, world, whole, whole, whole};
    case Operation::kAllGather:
      return {operation, world, piece, piece, piece * world};
    case Operation::kReduceScatter:
      return {operation, world, piece, piece * world, piece};
    case Operation::kAllToAll:
      break;
  }
  return {operation, world, piece, piece * world, piece * world};
}

}  // namespace keel::bench::peers
