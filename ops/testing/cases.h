// SPDX-License-Identifier: Apache-2.0
// Edge cases of each operator, for conformance and tests: ones, primes, empty tensors, long rows,
// every transpose, omitted optional inputs, special values.
#ifndef KEEL_OPS_TESTING_CASES_H_
#define KEEL_OPS_TESTING_CASES_H_

#include <keel/abi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace keel::ops {

struct Schema;  // ops/schema.h

// Distribution of a tensor's elements; ops/testing/case_data.h draws them.
enum class Distribution : uint8_t {
  kNormal,              // mean 0, deviation 1
  kUniform,             // [-1, 1)
  kPositive,            // [0.01, 1): variances, and sums that only grow
  kFar,                 // mean 50, deviation 1: a mean of squares is no variance
  kOffset,              // rows of one large number each, some with units in its last place added
  kHuge,                // rows as large as 2^127, most of them with squares beyond float32
  kTiny,                // rows as small as 2^-100, most of them with squares below normal float32
  kWide,                // +-2^[-20, 20): operands of very different size
  kLogits,              // normal, deviation 4
  kMaskedLogits,        // kLogits, one in five minus infinity
  kOffsetLogits,        // kLogits plus the row's number of kOffset
  kLogSumExp,           // of the rows of input 0, computed by the reference
  kIntegers,            // every value of the dtype; 32 bits for 64-bit types
  kEighths,             // multiples of 1/8 up to 64: many halfway between neighbours in 8 bits
  kPowerOfTwo,          // 2^-8 .. 2^7
  kIndices,             // 0 .. |bound| - 1
  kBoundaries,          // of sequences of growing length, the first may be empty: 0 .. bound
  kIndicesSomeOutside,  // one in four is -1, bound, or an extreme of int32
  kTies,                // float32 midway between neighbours of the 16-bit types, and nearby
  kSpecial,             // half are NaN, infinities, both zeroes, subnormals, largest
  kNonFinite,           // normal, one in sixteen NaN or an infinity
  kExtreme,             // half are NaN, infinities, largest, and near the limits of exp
  kExtremeGates,        // kExtreme in the first half of each row, kNormal in the second
  kSomeNaN,             // normal, one in sixteen NaN
  kSomeFarBelow,        // normal, one in sixteen so low that e^-x is infinite in float64
  kSubnormal,           // subnormals of the dtype, and normals near them
  kZeroes,              // of both signs
  kFaint,               // normal, deviation 2^-30 (float16 2^-12): squares far below 1
  kLone,                // normal, except one element per row: CaseTensor::lone
  kLoneAmongZeroes,     // likewise, and the rest is 0
  kMask,                // bytes: one in two 0, the rest nonzero
  kEdges,               // where 16- and 8-bit types round, overflow and underflow
  kIntegralEdges,       // the ends of int32, and where float32 begins to skip integers
  kEveryValue,          // element i has the bits of i: all values of a type of 8 or 16 bits
  kConversions,         // values that are hard to convert to the dtype |bound|, in turn
  kNaN                  // content that must not be read; integers have all bits set
};

struct CaseTensor {
  bool present = true;  // false: an optional input left out
  keel_dtype dtype = KEEL_FLOAT32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements; as many as |shape|
  uint64_t offset = 0;           // elements between the allocation and the first one
  Distribution distribution = Distribution::kNormal;
  // For kIndices and kBoundaries: see there. For kOffset, kOffsetLogits, kHuge, kTiny, kLone,
  // kLoneAmongZeroes and kExtremeGates: elements of a row.
  int64_t bound = 0;
  int64_t base = 0;  // for kIndices: base .. base + bound - 1
  // For kLone and kLoneAmongZeroes: the value of the exceptional element, and its position in each
  // row; the list of positions repeats after the last.
  double lone = 0;
  std::vector<int64_t> places = {};
};

// The smallest conformance profile that runs a case.
enum class Profile : uint8_t {
  kBySize,  // quick, unless the case is large
  kQuick,   // large but cheap
  kFull     // expensive, though not large
};

struct Case {
  std::string id;  // "matmul/f32/nt/m33_n65_k17/bias": unique, and stable between versions
  keel_op_id op = KEEL_OP_INVALID;
  uint32_t combination = 0;  // index into the schema's dtypes
  std::vector<CaseTensor> inputs;
  // The distribution is the content before the call: NaN unless the operator reads the output.
  std::vector<CaseTensor> outputs;
  std::vector<int32_t> in_place;  // for each output: index of the aliased input, or -1
  std::vector<keel_attribute> attributes;
  bool strided = false;  // some tensor is not dense: a kernel may return KEEL_OP_NONE
  Profile profile = Profile::kBySize;
};

// The edge cases written for |op|, an operator of the table, in a fixed order.
std::vector<Case> edge_cases(keel_op_id op);
// All cases of one operator: edge_cases(), then planned, extent and rounding cases
// (ops/testing/case_plans.h).
std::vector<Case> cases_of(const Schema& schema);
// Concatenates cases_of() of every operator, in order.
std::vector<Case> all_cases();

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_CASES_H_
