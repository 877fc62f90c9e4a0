// SPDX-License-Identifier: Apache-2.0
// The operators of Keel: one row an operator, from which the checks of every call,
// docs/operators.md and the conformance cases are made. Stateless and thread-safe.
#ifndef KEEL_OPS_SCHEMA_H_
#define KEEL_OPS_SCHEMA_H_

#include <keel/abi.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace keel::ops {

struct Case;      // ops/cases.h
class Workspace;  // ops/reference_workspace.h

inline constexpr uint32_t kMaxInputs = 8;
inline constexpr uint32_t kMaxOutputs = 3;

// Why a call was refused. Left unwritten on success: the hot path pays nothing.
struct CheckError {
  char text[256];
};

struct InputSpec {
  const char* name;
  const char* shape;      // for people: "[m,k], or [k,m] if trans_a"
  bool optional = false;  // may be NULL
  bool packed = false;    // as OutputSpec's: what the device's own pack_weights made
};

struct OutputSpec {
  const char* name;
  const char* shape;
  uint32_t in_place = 0;   // bit i: may be exactly input i (same memory, same layout)
  const char* reads = "";  // when the output's old content is read: "beta is not 0"
  // Elements in an order that is the device's own: only its own kernels read it. Cases and
  // references take them to be in the order of the shape, and leave out what is beyond k and n.
  bool packed = false;
};

enum class AttributeKind : uint8_t { kInt, kFloat };

// The range is inclusive; an infinite end is open, and only a range that is open on
// both sides lets NaN pass.
struct AttributeSpec {
  const char* name;
  AttributeKind kind;
  double default_value;
  double minimum;
  double maximum;
  const char* doc;
};

// How far an element may lie from the float64 reference. With |value| and
// |magnitude| as the reference gives them, the bound is
//   absolute + relative * |value| + scale * magnitude
// before both ends of the interval are rounded to the output's dtype, so that all
// zeroes means "correctly rounded".
struct Tolerance {
  double absolute;  // 2^-126 where kernels may flush float32 subnormals
  double relative;
  double scale;
  double nmse;  // of a whole output: sum (got - value)^2 / sum value^2
};

// One allowed combination of dtypes. Entries of optional inputs hold for when
// they are given; unused entries are KEEL_DTYPE_INVALID.
struct DtypeCombination {
  keel_dtype inputs[kMaxInputs];
  keel_dtype outputs[kMaxOutputs];
  bool optional;  // a backend may do without; others are what makes an op "supported"
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
  keel_dtype accumulation;  // KEEL_DTYPE_INVALID: nothing is accumulated
  // Whether shapes and attributes fit each other; dtypes, ranks <= 8, extents >= 0 and
  // the range of each attribute have been checked. Where they do not, writes |error| by
  // way of refuse() and returns false.
  bool (*check_shapes)(const keel_op_call& call, CheckError* error);
  // The interesting cases, deterministic and in a fixed order.
  std::vector<Case> (*cases)();
  // What it should compute, in float64: fills the outputs of |w|.
  void (*reference)(Workspace& w);
};

// All rows, in the order of their numbers.
std::span<const Schema* const> schemas();
// NULL for a number, or a name, that is none.
const Schema* find_schema(keel_op_id op);
const Schema* find_schema(std::string_view name);
// Whether a tensor of the operator is packed: no other device can stand in for one then.
bool has_packed(const Schema& schema);

enum class Check : uint8_t {
  kLayout,  // all but memory: a call that is only asked about may leave |data| NULL
  kAll      // also addresses: NULL, wrap-around, and outputs that overlap something
};

// Whether |call| fits its schema: struct sizes, counts, dtypes, extents, byte spans,
// shapes, attributes, aliasing. KEEL_OK; KEEL_NOT_FOUND for an operator that is none;
// KEEL_UNSUPPORTED for an unknown required extension; else KEEL_INVALID_ARGUMENT, and
// |error| names the argument ("add: input b: ..."). Allocates nothing, and on success
// touches no string.
keel_status check_call(const keel_op_call& call, Check check, CheckError* error);

// Index into find_schema(call.op)->dtypes of a call that passed check_call.
uint32_t dtype_combination(const keel_op_call& call);

// For check_shapes: writes "matmul: " and the formatted text, returns false.
[[gnu::format(printf, 3, 4), gnu::cold]] bool refuse(const keel_op_call& call, CheckError* error,
                                                     const char* format, ...);

}  // namespace keel::ops

#endif  // KEEL_OPS_SCHEMA_H_
