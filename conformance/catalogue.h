// SPDX-License-Identifier: Apache-2.0
// The catalogue: all conformance cases for the plugin under test, generated from the tables of
// levels, sizes and operators after the plugin is loaded.
#ifndef KEEL_CONFORMANCE_CATALOGUE_H_
#define KEEL_CONFORMANCE_CATALOGUE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "conformance/environment.h"

namespace keel::conformance {

// The context that a running case receives.
struct Context {
  const Environment& environment;
  const std::string& id;

  keel_device device() const { return environment.device; }
  // Returns whether the device claims all of |bits|. Fails a case on the plugin's own tables if the
  // plugin lacks slots of a claim, which the case would call next.
  bool has(uint64_t bits) const;
};

struct Case {
  std::string id;             // "core/copy/roundtrip/65537"
  uint64_t capabilities = 0;  // capability bits; the case is unsupported unless the device has all
  bool full = false;          // the case runs only in the full profile
  std::function<void(const Context&)> body;
  // Run the case in its own worker process, because the case leaves the device, or the library
  // under it, unusable.
  bool alone = false;
  // With which the vendor's library fails in that process (library_faults.h); empty: none. Such a
  // case runs alone.
  std::string fault = {};
};

// One suite per level, each appended to |cases| in a fixed order. All levels above null need a
// device in |environment|.
void add_null_cases(const Environment& environment, std::vector<Case>* cases);
void add_core_cases(const Environment& environment, std::vector<Case>* cases);
void add_async_cases(const Environment& environment, std::vector<Case>* cases);
void add_memory_cases(const Environment& environment, std::vector<Case>* cases);
void add_ops_cases(const Environment& environment, std::vector<Case>* cases);
void add_large_ops_cases(const Environment& environment, std::vector<Case>* cases);
void add_kernels_cases(const Environment& environment, std::vector<Case>* cases);
void add_kernel_limits_cases(const Environment& environment, std::vector<Case>* cases);
void add_kernel_modules_cases(const Environment& environment, std::vector<Case>* cases);
void add_collectives_cases(const Environment& environment, std::vector<Case>* cases);
void add_collective_shapes_cases(const Environment& environment, std::vector<Case>* cases);
void add_element_type_cases(const Environment& environment, std::vector<Case>* cases);
// Suites of several levels that call the plugin's own tables.
void add_device_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_copy_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_fill_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_slot_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_claim_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_memory_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_pool_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_host_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_native_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_export_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_import_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_stream_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_enqueue_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_priority_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_op_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_op_work_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_workspace_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_event_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_time_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_thread_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_memory_thread_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_failed_work_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_failure_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_library_failure_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_kernel_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_ccl_table_cases(const Environment& environment, std::vector<Case>* cases);
void add_ccl_lifetime_cases(const Environment& environment, std::vector<Case>* cases);
void add_ccl_order_cases(const Environment& environment, std::vector<Case>* cases);
void add_one_rank_cases(const Environment& environment, std::vector<Case>* cases);
void add_multi_device_cases(const Environment& environment, std::vector<Case>* cases);

// Maps case ids to cases. |cases| must outlive the index.
class CaseIndex {
 public:
  explicit CaseIndex(const std::vector<Case>& cases);
  // Returns NULL if no case has |id|.
  const Case* find(const std::string& id) const;

 private:
  std::unordered_map<std::string, const Case*> by_id_;
};

std::vector<Case> make_catalogue(const Environment& environment);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_CATALOGUE_H_
