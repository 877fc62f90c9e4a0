// SPDX-License-Identifier: Apache-2.0
#include "ops/selection.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>
#include <vector>

#include "core/runtime.h"
#include "ops/schema.h"

namespace keel::ops {
namespace {

bool better(const Candidate& a, const Candidate& b) {
  if (a.level != b.level) return a.level > b.level;
  if (a.score != b.score) return a.score > b.score;
  return a.custom == nullptr && b.custom != nullptr;
}

// Queries the plugin. Returns a failure only if the plugin failed; level KEEL_OP_NONE is no
// failure.
Status query_plugin(Device& device, const keel_op_call& call, Candidate* out_candidate) {
  out_candidate->level = KEEL_OP_NONE;
  out_candidate->device = &device;
  const keel_op_table* table = device.op_table();
  if (!KEEL_HAS(keel_op_table, table, query) || !KEEL_HAS(keel_op_table, table, run)) return {};
  keel_op_support support = {};
  support.header = kit::header<keel_op_support>(KEEL_STRUCT_OP_SUPPORT);
  const keel_status status = table->query(device.native(), &call, &support);
  if (status != KEEL_OK) return device.check(status, "op.query");
  out_candidate->level = support.level;
  out_candidate->score = support.score;
  out_candidate->workspace_bytes = support.workspace_bytes;
  out_candidate->kernel = support.kernel == nullptr ? "" : support.kernel;
  return {};
}

Candidate of_custom(Device& device, const CustomKernel& kernel) {
  Candidate candidate;
  candidate.level = KEEL_OP_NATIVE;
  candidate.score = kernel.score;
  candidate.kernel = kernel.name.c_str();
  candidate.custom = &kernel;
  candidate.device = &device;
  return candidate;
}

// Calls |visit(kernel)| for each custom kernel of the device's backend for |op|.
template <typename Visit>
void for_each_custom(const Device& device, keel_op_id op, Visit&& visit) {
  for (const CustomKernel* kernel = KernelRegistry::get().first(op); kernel != nullptr;
       kernel = kernel->next) {
    if (kernel->backend == &device.backend()) visit(*kernel);
  }
}

const char* level_name(keel_op_level level) {
  return level == KEEL_OP_NATIVE ? "native" : level == KEEL_OP_COMPOSED ? "composed" : "none";
}

}  // namespace

Status select_kernel(Device& device, const keel_op_call& call, Candidate* out_best) {
  KEEL_RETURN_IF_ERROR(query_plugin(device, call, out_best));
  for_each_custom(device, call.op, [&](const CustomKernel& kernel) {
    const Candidate candidate = of_custom(device, kernel);
    if (better(candidate, *out_best) && kernel.accepts(kernel.user, &call) != 0) {
      *out_best = candidate;
    }
  });
  return {};
}

Status select_fallback(Device& device, const keel_op_call& call, Candidate* out_fallback) {
  *out_fallback = {};
  if (has_packed(*find_schema(call.op))) return {};  // only its kernels know the packed order
  for (const Ref<Device>& cpu : Runtime::get().devices()) {
    if (cpu.get() == &device || cpu->info().type != KEEL_DEVICE_CPU) continue;
    if (&cpu->backend() == &device.backend()) continue;  // same kernels as the device's
    Candidate candidate;
    // A device that cannot be opened or queried is no candidate.
    if (!cpu->open().ok() || !query_plugin(*cpu, call, &candidate).ok()) continue;
    if (candidate.level != KEEL_OP_NONE && better(candidate, *out_fallback)) {
      *out_fallback = candidate;
    }
  }
  return {};
}

std::string explain_selection(Device& device, const keel_op_call& call, bool fallback_forbidden,
                              uint32_t* out_count) {
  std::vector<Candidate> candidates;
  std::string refusals;
  Candidate plugin;
  take_plugin_text();  // drops text of earlier queries
  const Status status = query_plugin(device, call, &plugin);
  if (!status.ok()) {
    refusals += fmt::format("- {}: {}\n", device.name(), status.text());
  } else if (plugin.level != KEEL_OP_NONE) {
    candidates.push_back(plugin);
  } else {
    const std::string reason = take_plugin_text();
    refusals += fmt::format("- {}: {}\n", device.name(),
                            device.op_table() == nullptr ? "has no operators"
                            : reason.empty() ? "has no kernel for this call, and gives no reason"
                                             : reason);
  }
  for_each_custom(device, call.op, [&](const CustomKernel& kernel) {
    if (kernel.accepts(kernel.user, &call) != 0) {
      candidates.push_back(of_custom(device, kernel));
    } else {
      refusals +=
          fmt::format("- {}: {} (custom) does not accept the call\n", device.name(), kernel.name);
    }
  });
  std::stable_sort(candidates.begin(), candidates.end(), better);
  Candidate fallback;
  if (select_fallback(device, call, &fallback).ok() && fallback.level != KEEL_OP_NONE) {
    if (fallback_forbidden) {
      refusals += fmt::format("- {}: {} through staged copies, which are forbidden\n",
                              fallback.device->name(), fallback.kernel);
    } else {
      candidates.push_back(fallback);
    }
  }
  std::string text = fmt::format("{} on {}\n", find_schema(call.op)->name, device.name());
  for (size_t rank = 0; rank < candidates.size(); ++rank) {
    const Candidate& each = candidates[rank];
    text += fmt::format("{} {}: {}{} level {} score {} workspace {}\n", rank + 1,
                        each.device->name(), each.kernel,
                        each.device != &device   ? " through staged copies,"
                        : each.custom != nullptr ? " (custom),"
                                                 : ",",
                        level_name(each.level), each.score, each.workspace_bytes);
  }
  *out_count = static_cast<uint32_t>(candidates.size());
  return text + refusals;
}

}  // namespace keel::ops
