// SPDX-License-Identifier: Apache-2.0
// Which backend computes which operator: backends are asked call by call, without memory.
#ifndef KEEL_CLI_OP_SUPPORT_H_
#define KEEL_CLI_OP_SUPPORT_H_

#include <keel/keel.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace keel::cli {

// A backend, asked through its first device.
struct Column {
  std::string backend;
  Device device;
};

// Every backend that has a device, or the one that is |wanted|; an Error where there is none.
std::vector<Column> support_columns(const std::string& wanted);

// Nothing where only another backend's kernel could run the call, or none.
std::optional<keel_op_plan> own_plan(const OpCall& call, Device device);

// Of each operator the combinations of dtypes that each backend computes, as a table in
// Markdown: every one of conformance's cases is asked about.
std::string support_markdown(std::span<const Column> columns);

}  // namespace keel::cli

#endif  // KEEL_CLI_OP_SUPPORT_H_
