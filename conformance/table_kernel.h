// SPDX-License-Identifier: Apache-2.0
// The suite's kernel "number" through the plugin's own tables: result[i] += i + first.
#ifndef KEEL_CONFORMANCE_TABLE_KERNEL_H_
#define KEEL_CONFORMANCE_TABLE_KERNEL_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "conformance/harness.h"
#include "conformance/kernel_binaries.h"

namespace keel::conformance {

// The destructor does not unload the kernel, because the object cannot know when the last launch
// has ended.
class TableKernel {
 public:
  static constexpr uint32_t kBlock = 128;

  // Loads the kernel in the first format that |usable| allows and the device accepts. Without such
  // a format, ends the case as unsupported with |reason|.
  TableKernel(const Context& context, const std::function<bool(const KernelSet&)>& usable,
              const char* reason, Where where = Where::current());

  // Enqueues a launch over |words|, a multiple of kBlock.
  void launch(keel_plugin_stream* stream, std::byte* result, uint64_t words, uint32_t first,
              Where where = Where::current()) const;
  // Likewise; returns the status, which the caller observes.
  keel_status try_launch(keel_plugin_stream* stream, std::byte* result, uint64_t words,
                         uint32_t first) const;
  // Call it after all launches have ended.
  void unload() const;

 private:
  const Context& context_;
  keel_plugin_module* module_ = nullptr;
  keel_plugin_kernel* kernel_ = nullptr;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_KERNEL_H_
