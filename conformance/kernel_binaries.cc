// SPDX-License-Identifier: Apache-2.0
#include "conformance/kernel_binaries.h"

#include <cstdint>

namespace keel::conformance {

namespace {

constexpr uint8_t kSharedObject[] = {
#include "shared_object.inc"
};
constexpr uint8_t kPtx[] = {
#include "ptx.inc"
};
#ifdef KEEL_CONFORMANCE_SPIRV
constexpr uint32_t kAxpy[] = {
#include "axpy.inc"
};
constexpr uint32_t kNumber[] = {
#include "number.inc"
};
#endif

const KernelSet kSets[] = {
#ifdef KEEL_CONFORMANCE_SPIRV
    {KEEL_BINARY_SPIRV,
     "SPIR-V",
     /*knows_arguments=*/true,
     {std::as_bytes(std::span(kAxpy)), "main"},
     {std::as_bytes(std::span(kNumber)), "main"}},
#endif
    {KEEL_BINARY_CUBIN,
     "PTX",
     /*knows_arguments=*/true,
     {std::as_bytes(std::span(kPtx)), "axpy"},
     {std::as_bytes(std::span(kPtx)), "number"}},
    // What the emulated chip takes for one, and no GPU.
    {KEEL_BINARY_CUBIN,
     "a cubin",
     /*knows_arguments=*/true,
     {std::as_bytes(std::span(kSharedObject)), "axpy"},
     {std::as_bytes(std::span(kSharedObject)), "number"}},
    {KEEL_BINARY_SHARED_OBJECT,
     "a shared object",
     /*knows_arguments=*/false,
     {std::as_bytes(std::span(kSharedObject)), "axpy"},
     {std::as_bytes(std::span(kSharedObject)), "number"}},
};

}  // namespace

std::span<const KernelSet> kernel_sets() {
  return kSets;
}

}  // namespace keel::conformance
