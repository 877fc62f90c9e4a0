// SPDX-License-Identifier: Apache-2.0
// Interesting calls of each operator, for conformance and tests: ones, primes, empty
// tensors, long rows, every transpose, optional inputs left out, special values.
#ifndef KEEL_OPS_CASES_H_
#define KEEL_OPS_CASES_H_

#include <keel/abi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace keel::ops {

struct Schema;  // ops/schema.h

// What the elements of a tensor are drawn from; ops/case_data.h draws them.
enum class Distribution : uint8_t {
  kNormal,              // mean 0, deviation 1
  kUniform,             // [-1, 1)
  kPositive,            // [0.01, 1): variances, and sums that only grow
  kFar,                 // mean 50, deviation 1: a mean of squares is no variance
  kOffset,              // rows of one large number each, some with units in its last place added
  kHuge,                // rows as large as 2^127, most of which have squares beyond float32
  kTiny,                // rows as small as 2^-100, most of which have squares that float32 has not
  kWide,                // +-2^[-20, 20): operands of very different size
  kLogits,              // normal, deviation 4
  kMaskedLogits,        // the same, one in five minus infinity
  kOffsetLogits,        // the same with the row's number of kOffset added
  kLogSumExp,           // of the rows of input 0, made by the reference
  kIntegers,            // every value of the dtype, of the 64-bit ones 32 bits
  kEighths,             // multiples of 1/8 up to 64: many halfway between neighbours in 8 bits
  kPowerOfTwo,          // 2^-8 .. 2^7
  kIndices,             // 0 .. bound - 1
  kBoundaries,          // of sequences of growing length, the first may be empty: 0 ... bound
  kIndicesSomeOutside,  // one in four of -1, bound, and the extremes of int32
  kTies,                // float32 halfway between neighbours of the 16-bit types, and beside
  kSpecial,             // NaN, infinities, both zeroes, subnormals, largest; half of all
  kNonFinite,           // normal, one in sixteen NaN or an infinity
  kExtreme,             // NaN, infinities, largest, and about where exponentials end; half of all
  kExtremeGates,        // the same in the first half of each row, normal in the second
  kSomeNaN,             // normal, one in sixteen NaN
  kSomeFarBelow,        // normal, one in sixteen so low that e^-x is infinite even in float64
  kSubnormal,           // subnormals of the dtype, and normals beside them
  kZeroes,              // of both signs
  kFaint,               // normal, deviation 2^-30, of float16 2^-12: squares are far below 1
  kLone,                // normal, but for one element in each row: CaseTensor::lone
  kMask,                // of bytes: one in two 0, the others any but 0
  kEdges,               // where the types of 16 and 8 bits round up or down, overflow and underflow
  kIntegralEdges,       // the ends of int32, and where float32 begins to skip integers
  kEveryValue,          // element i has the bits of i: all values of a type of 8 or 16 bits
  kNaN                  // content that must not be read; all bits set in an integer
};

struct CaseTensor {
  bool present = true;  // false: an optional input left out
  keel_dtype dtype = KEEL_FLOAT32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements; as many as |shape|
  uint64_t offset = 0;           // elements between the allocation and the first one
  Distribution distribution = Distribution::kNormal;
  // Of kIndices and kBoundaries; elements of a row, of kOffset, kOffsetLogits, kHuge, kTiny, kLone
  // and kExtremeGates.
  int64_t bound = 0;
  int64_t base = 0;  // of kIndices: base .. base + bound - 1
  // Of kLone: what stands alone, and where in each row, which begin anew after the last.
  double lone = 0;
  std::vector<int64_t> places = {};
};

// From which profile of conformance on a case is run.
enum class Profile : uint8_t {
  kBySize,  // the quick one, unless it is large
  kQuick,   // large, and cheap all the same
  kFull     // dear, though it is not large
};

struct Case {
  std::string id;  // "matmul/f32/nt/m33_n65_k17/bias": unique, and stable between versions
  keel_op_id op = KEEL_OP_INVALID;
  uint32_t combination = 0;  // index into the schema's dtypes
  std::vector<CaseTensor> inputs;
  // The distribution is of the content before the call: NaN unless it is read.
  std::vector<CaseTensor> outputs;
  std::vector<int32_t> in_place;  // for each output the input that it equals, or -1
  std::vector<keel_attribute> attributes;
  bool strided = false;  // some tensor is not dense: a kernel may answer KEEL_OP_NONE
  Profile profile = Profile::kBySize;
};

// Of one operator: schema.cases(), and those made from its plan (ops/case_plans.h), its extents and
// its roundings.
std::vector<Case> cases_of(const Schema& schema);
// cases_of every operator, in order.
std::vector<Case> all_cases();

}  // namespace keel::ops

#endif  // KEEL_OPS_CASES_H_
