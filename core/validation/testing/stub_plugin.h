// SPDX-License-Identifier: Apache-2.0
// A plugin with answers chosen by the test, to observe the validation layer from both sides: work
// is done when the test says so, and any call can fail, violate the ABI or leave its outputs unset.
#ifndef KEEL_CORE_VALIDATION_TESTING_STUB_PLUGIN_H_
#define KEEL_CORE_VALIDATION_TESTING_STUB_PLUGIN_H_

#include <keel/abi.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace keel::validation::testing {

struct Stub {
  std::map<std::string, int> calls;            // calls of each function
  std::map<std::string, keel_status> answers;  // returned without any effect
  std::set<std::string> silent;                // functions that leave their outputs unset
  keel_status work = KEEL_OK;                  // answer of queries and waits
  void* next_pointer = nullptr;                // next result of alloc, instead of fresh memory
  uint64_t elapsed_ns = 1000;
  uint32_t support_level = KEEL_OP_NATIVE;
  uint64_t workspace_bytes = 0;
  std::function<void(keel_device_info*)> edit_info;
  std::function<void()> in_copy;  // called within copy
  std::vector<std::pair<keel_notify_fn, void*>> notifications;
  keel_plugin_stream* next_stream = nullptr;  // next result of create, instead of a fresh one
};

// One stub per process; each test starts with a new one.
Stub& stub();
void reset_stub();
// Has two devices, which claim every capability of the stub.
const keel_plugin& stub_plugin();

}  // namespace keel::validation::testing

#endif  // KEEL_CORE_VALIDATION_TESTING_STUB_PLUGIN_H_
