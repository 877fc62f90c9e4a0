// SPDX-License-Identifier: Apache-2.0
#include "conformance/catalogue.h"

#include <algorithm>

#include "conformance/levels.h"

namespace keel::conformance {

CaseIndex::CaseIndex(const std::vector<Case>& cases) {
  for (const Case& each : cases) by_id_.emplace(each.id, &each);
}

const Case* CaseIndex::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<Case> make_catalogue(const Environment& environment) {
  std::vector<Case> cases;
  add_null_cases(environment, &cases);
  if (!environment.target.has_device()) return cases;
  add_core_cases(environment, &cases);
  add_async_cases(environment, &cases);
  add_memory_cases(environment, &cases);
  add_ops_cases(environment, &cases);
  add_large_ops_cases(environment, &cases);
  add_kernels_cases(environment, &cases);
  add_kernel_limits_cases(environment, &cases);
  add_kernel_modules_cases(environment, &cases);
  add_collectives_cases(environment, &cases);
  add_collective_shapes_cases(environment, &cases);
  add_element_type_cases(environment, &cases);
  add_kernel_table_cases(environment, &cases);
  add_ccl_table_cases(environment, &cases);
  add_ccl_lifetime_cases(environment, &cases);
  add_ccl_order_cases(environment, &cases);
  add_one_rank_cases(environment, &cases);
  add_multi_device_cases(environment, &cases);
  add_device_table_cases(environment, &cases);
  add_copy_table_cases(environment, &cases);
  add_fill_table_cases(environment, &cases);
  add_slot_table_cases(environment, &cases);
  add_claim_table_cases(environment, &cases);
  add_memory_table_cases(environment, &cases);
  add_pool_table_cases(environment, &cases);
  add_host_table_cases(environment, &cases);
  add_export_table_cases(environment, &cases);
  add_import_table_cases(environment, &cases);
  add_stream_table_cases(environment, &cases);
  add_enqueue_table_cases(environment, &cases);
  add_native_table_cases(environment, &cases);
  add_priority_table_cases(environment, &cases);
  add_op_table_cases(environment, &cases);
  add_workspace_table_cases(environment, &cases);
  add_op_work_table_cases(environment, &cases);
  add_event_table_cases(environment, &cases);
  add_time_table_cases(environment, &cases);
  add_thread_table_cases(environment, &cases);
  add_memory_thread_table_cases(environment, &cases);
  add_failure_table_cases(environment, &cases);
  add_library_failure_table_cases(environment, &cases);
  add_failed_work_table_cases(environment, &cases);
  std::stable_sort(cases.begin(), cases.end(), [](const Case& one, const Case& other) {
    return level_of(one.id) < level_of(other.id);
  });
  return cases;
}

}  // namespace keel::conformance
