// SPDX-License-Identifier: Apache-2.0
// The sources of the kernels, for HIP's compiler at run time.
#ifndef KEEL_KERNELS_GPU_HIP_SOURCES_H_
#define KEEL_KERNELS_GPU_HIP_SOURCES_H_

#include <span>

namespace keel::simt {

struct Source {
  const char* name;  // as sources include it: "kernels/gpu/simt.h"
  const char* text;
};

// Returns every file that the families "kernels/gpu/FAMILY.cc" include, among them what they use of
// the standard library, which the compiler has no headers of.
std::span<const Source> hip_sources();

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_HIP_SOURCES_H_
