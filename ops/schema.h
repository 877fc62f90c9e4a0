// SPDX-License-Identifier: Apache-2.0
// The operators of Keel, one row per operator, from ops/table/operators.py. The checks of every
// call, docs/operators.md and the conformance cases derive from the rows. Stateless and
// thread-safe.
#ifndef KEEL_OPS_SCHEMA_H_
#define KEEL_OPS_SCHEMA_H_

#include <keel/abi.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace keel::ops {

inline constexpr uint32_t kMaxInputs = 9;
inline constexpr uint32_t kMaxOutputs = 3;

// The reason for a refusal. Unwritten on success, so the hot path pays nothing.
struct CheckError {
  char text[256];
};

struct InputSpec {
  const char* name;
  const char* shape;      // display text: "[m,k], or [k,m] if trans_a"
  bool optional = false;  // may be NULL
  bool packed = false;    // as in OutputSpec: made by the device's own pack_weights
};

struct OutputSpec {
  const char* name;
  const char* shape;
  uint32_t in_place = 0;   // bit i: may alias input i exactly (same memory and layout)
  const char* reads = "";  // when the old content is read: "beta is not 0"
  // Element order private to the device: only the device's own kernels read the tensor. Cases and
  // references assume row-major order of the shape and ignore elements beyond k and n.
  bool packed = false;
};

enum class AttributeKind : uint8_t { kInt, kFloat };

// The range is inclusive; an infinite end is open. Only a range open on both sides admits NaN.
struct AttributeSpec {
  const char* name;
  AttributeKind kind;
  double default_value;
  double minimum;
  double maximum;
  const char* doc;
};

// Allowed distance of an element from the float64 reference. With |value| and |magnitude| of the
// reference, the bound is
//   absolute + relative * |value| + scale * magnitude
// Both ends of the interval are then rounded to the output's dtype, so all zeroes means "correctly
// rounded".
struct Tolerance {
  double absolute;  // 2^-126 where kernels may flush float32 subnormals
  double relative;
  double scale;
  double nmse;  // over a whole output: sum (got - value)^2 / sum value^2
};

// One allowed combination of dtypes. Entries of optional inputs apply if the inputs are present;
// unused entries are KEEL_DTYPE_INVALID.
struct DtypeCombination {
  keel_dtype inputs[kMaxInputs];
  keel_dtype outputs[kMaxOutputs];
  bool optional;  // backends may omit it; the rest make an op "supported"
  Tolerance tolerance;
};

struct Schema {
  keel_op_id op;
  const char* name;
  const char* doc;
  std::span<const InputSpec> inputs;
  std::span<const OutputSpec> outputs;
  std::span<const AttributeSpec> attributes;
  std::span<const DtypeCombination> dtypes;
  keel_dtype accumulation;  // KEEL_DTYPE_INVALID: no accumulation
  // Whether shapes and attributes are consistent; otherwise writes |error| through refuse() and
  // returns false. Dtypes, ranks <= 8, extents >= 0 and the range of each attribute have been
  // checked.
  bool (*check_shapes)(const keel_op_call& call, CheckError* error);
  // Bit d: any tensor may have keel_dtype d, whatever the others have; |dtypes| are then the
  // combinations that conformance tries. 0: |dtypes| are all there are.
  uint32_t mixed_dtypes;
};

// All rows, in the order of their operator numbers.
std::span<const Schema* const> schemas();
// Returns NULL for an unknown number or name.
const Schema* find_schema(keel_op_id op);
const Schema* find_schema(std::string_view name);
// Whether the operator has a packed tensor; no other device can then run the operator as a
// fallback.
bool has_packed(const Schema& schema);

enum class Check : uint8_t {
  kLayout,  // all but memory: queries may leave |data| NULL
  kAll      // also addresses: NULL, wrap-around, overlap of outputs
};

// Checks |call| against its schema: struct sizes, counts, dtypes, extents, byte spans, shapes,
// attributes, aliasing. Returns KEEL_OK; KEEL_NOT_FOUND for an unknown operator; KEEL_UNSUPPORTED
// for an unknown required extension; otherwise KEEL_INVALID_ARGUMENT, with the argument named in
// |error| ("add: input b: ..."). Allocates nothing, and on success touches no string.
keel_status check_call(const keel_op_call& call, Check check, CheckError* error);

// Index into find_schema(call.op)->dtypes for a call that passed check_call.
uint32_t dtype_combination(const keel_op_call& call);

// For check_shapes: writes "matmul: " and the formatted text, returns false.
[[gnu::format(printf, 3, 4), gnu::cold]] bool refuse(const keel_op_call& call, CheckError* error,
                                                     const char* format, ...);

}  // namespace keel::ops

#endif  // KEEL_OPS_SCHEMA_H_
