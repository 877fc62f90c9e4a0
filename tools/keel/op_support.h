// SPDX-License-Identifier: Apache-2.0
// Finds the backends that compute an operator: queries backends call by call, without memory.
#ifndef KEEL_TOOLS_KEEL_OP_SUPPORT_H_
#define KEEL_TOOLS_KEEL_OP_SUPPORT_H_

#include <keel/keel.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace keel::cli {

// A backend, queried through the backend's first device.
struct Column {
  std::string backend;
  Device device;
};

// Returns every backend with a device, or only |wanted|. Throws UsageError for an unknown backend,
// Error if there is no device.
std::vector<Column> support_columns(const std::string& wanted);

// Returns the backend's plan for |call|; nullopt if only a different backend's kernel, or no
// kernel, could run the call.
std::optional<keel_op_plan> own_plan(const OpCall& call, Device device);

// Returns a Markdown table of the dtype combinations of each operator that each backend computes.
// Queries every conformance case.
std::string support_markdown(std::span<const Column> columns);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_OP_SUPPORT_H_
