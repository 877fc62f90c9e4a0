// SPDX-License-Identifier: Apache-2.0
// The kernels that the suite brings along, in the formats it can be built for.
#ifndef KEEL_CONFORMANCE_KERNEL_BINARIES_H_
#define KEEL_CONFORMANCE_KERNEL_BINARIES_H_

#include <keel/keel.h>

#include <cstddef>
#include <span>
#include <string>

namespace keel::conformance {

struct KernelBinary {
  std::span<const std::byte> module;
  std::string name;  // of the kernel in it
};

// The same two kernels in one format; what they do is in kernels/kernels.c.
struct KernelSet {
  keel_binary_format format;
  const char* format_name;
  bool knows_arguments;  // a module says how many arguments of which size it takes
  KernelBinary axpy;
  KernelBinary number;
};

std::span<const KernelSet> kernel_sets();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_KERNEL_BINARIES_H_
