// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/hip_sources.h"

namespace keel::simt {
namespace {

// Macros, since the compiler's own headers declare the same names, of other types in some releases.
constexpr char kIntegers[] = R"(#pragma once
typedef __INT8_TYPE__ keel_int8;
typedef __INT16_TYPE__ keel_int16;
typedef __INT32_TYPE__ keel_int32;
typedef __INT64_TYPE__ keel_int64;
typedef __UINT8_TYPE__ keel_uint8;
typedef __UINT16_TYPE__ keel_uint16;
typedef __UINT32_TYPE__ keel_uint32;
typedef __UINT64_TYPE__ keel_uint64;
typedef __UINTPTR_TYPE__ keel_uintptr;
#define int8_t keel_int8
#define int16_t keel_int16
#define int32_t keel_int32
#define int64_t keel_int64
#define uint8_t keel_uint8
#define uint16_t keel_uint16
#define uint32_t keel_uint32
#define uint64_t keel_uint64
#define uintptr_t keel_uintptr
#define INT8_MAX __INT8_MAX__
#define INT8_MIN (-INT8_MAX - 1)
#define UINT8_MAX __UINT8_MAX__
#define INT16_MAX __INT16_MAX__
#define INT16_MIN (-INT16_MAX - 1)
#define UINT16_MAX __UINT16_MAX__
#define INT32_MAX __INT32_MAX__
#define INT32_MIN (-INT32_MAX - 1)
#define UINT32_MAX __UINT32_MAX__
#define INT64_MAX __INT64_MAX__
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX __UINT64_MAX__
)";

// The functions come with the compiler.
constexpr char kNumbers[] = R"(#pragma once
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
)";

constexpr Source kSources[] = {
    {"cstdint", kIntegers},
    {"cmath", kNumbers},
    {"cstring", "#pragma once\n#define memcpy __builtin_memcpy\n"},
#include "hip_sources.inc"
};

}  // namespace

std::span<const Source> hip_sources() {
  return kSources;
}

}  // namespace keel::simt
