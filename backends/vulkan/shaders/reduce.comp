// SPDX-License-Identifier: Apache-2.0
#version 460
// y = function of x over some axes, for any dtypes and strides. The function, the dtypes and the
// axes are values, so that one module reduces in one type, KEEL_COMPUTE: 32 and 64 for the floats,
// 0 for int64. A workgroup reduces an output, or, by kColumns, an invocation. Few outputs of many
// elements are cut into slices, one for each gl_WorkGroupID.y: the first dispatch then writes
// states, and a second one joins them.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#include "typed.glsl"
#if KEEL_COMPUTE == 32
#include "value_32.glsl"
#include "math.glsl"
#define natural_log exact_log
#elif KEEL_COMPUTE == 64
#include "value_64.glsl"
#include "transcendental_64.glsl"
#else
#include "value_int.glsl"
#endif

layout(constant_id = 1) const bool kOneSubgroup = false;
// 1: an invocation reduces an output; 2: log_sum_exp of float64, which a software driver takes long
// to compile.
layout(constant_id = 2) const uint kVariant = 0;
const bool kColumns = (kVariant & 1u) != 0;
const bool kHasLogSums = KEEL_COMPUTE == 32 || kVariant >= 2u;

layout(push_constant, std430) uniform Arguments {
  uvec2 x;       // or states
  uvec2 y;       // or states
  uint call;     // function: 4 bits, types of x and y: 2 x 4, kept and reduced axes: 2 x 4, flags
  uint outputs;
  uint reduced;  // elements of an output, or states
  uint terms;    // elements of an output
  uint steps[24];  // of kept axes, fastest first: extent, strides of x and y; of reduced: without y
};

// reduce_function of keel/ops.h; ops_reduce.cc compares them.
const uint kSum = 0;
const uint kMean = 1;
const uint kProd = 2;
const uint kMax = 3;
const uint kMin = 4;
const uint kArgmax = 5;
const uint kArgmin = 6;
const uint kAny = 7;
const uint kAll = 8;
const uint kSumOfSquares = 9;
const uint kNorm = 10;
const uint kAbsSum = 11;
const uint kAbsMax = 12;
const uint kLogSumExp = 13;

uint function() { return call & 15u; }
uint x_type() { return call >> 4 & 15u; }
uint y_type() { return call >> 8 & 15u; }
uint kept_axes() { return call >> 12 & 15u; }
uint reduced_axes() { return call >> 16 & 15u; }
bool from_states() { return (call & 1u << 20) != 0; }
bool to_states() { return (call & 1u << 21) != 0; }

bool adds() {
  return function() <= kMean || (function() >= kSumOfSquares && function() <= kAbsSum);
}
bool finds_least() { return function() == kMin || function() == kArgmin || function() == kAll; }

const uint kNothing = 0xffffffffu;

// The result of reducing some elements. An extreme is the element |index|; a log_sum_exp is value +
// log scale.
struct State {
  Value value;
  Value scale;
  uint index;
};

State state_of_nothing() {
  Value value = Value(0);
  if (function() == kProd || function() == kAll) value = Value(1);
#if KEEL_COMPUTE != 0
  if (function() == kLogSumExp) value = -infinity();
#endif
  return State(value, Value(0), kNothing);
}

// Whether |other| is more extreme than |best|: NaN is, then the first of equals.
bool exceeds(State other, State best) {
  if (other.index == kNothing || best.index == kNothing) return best.index == kNothing;
  if (is_nan(other.value) != is_nan(best.value)) return is_nan(other.value);
  if (is_nan(other.value) || other.value == best.value) return other.index < best.index;
  return finds_least() ? other.value < best.value : other.value > best.value;
}

State join(State a, State b) {
  if (adds()) {
    a.value += b.value;
  } else if (function() == kProd) {
    a.value *= b.value;
#if KEEL_COMPUTE != 0
  } else if (kHasLogSums && function() == kLogSumExp) {
    if (is_nan(a.value)) return a;
    if (is_nan(b.value)) return b;
    if (a.value == b.value) {
      a.scale += b.scale;
    } else {
      const bool is_below = a.value < b.value;
      const State lower = is_below ? a : b;
      if (is_below) a = b;
      a.scale += lower.scale * exp_or_infinity(lower.value - a.value);
    }
#endif
  } else if (exceeds(b, a)) {
    return b;
  }
  return a;
}

// States are in three arrays, one after the other.
State stored_state(uint i, uint count) {
  return State(number(Pairs(x).at[i]), number(Pairs(x).at[count + i]),
               Words(x).at[4u * count + i]);
}
void store_state(uint i, uint count, State state) {
  Pairs(y).at[i] = bits_of(state.value);
  Pairs(y).at[count + i] = bits_of(state.scale);
  Words(y).at[4u * count + i] = state.index;
}

// Where output |index| begins in x, and is in y.
uvec2 place_of(uint index) {
  uvec2 place = uvec2(0);
  const uint axes = kept_axes();
  for (uint axis = 0; axis < axes; ++axis) {
    const uint extent = steps[3u * axis];
    const uint rest = index / extent;
    place += (index - rest * extent) * uvec2(steps[3u * axis + 1u], steps[3u * axis + 2u]);
    index = rest;
  }
  return place;
}

// Where element |index| of an output is, from the output's first element.
uint offset_of(uint index) {
  uint offset = 0;
  uint at = 3u * kept_axes();
  for (uint axis = reduced_axes(); axis > 1u; --axis) {
    const uint rest = index / steps[at];
    offset += (index - rest * steps[at]) * steps[at + 1u];
    index = rest;
    at += 2u;
  }
  return reduced_axes() == 0u ? offset : offset + index * steps[at + 1u];
}

State element(uint index, uint first) {
  Value value = to_value(load_bits(x, x_type(), first + offset_of(index)), x_type());
  if (function() == kAbsSum || function() == kAbsMax) value = abs(value);
  if (function() == kSumOfSquares || function() == kNorm) value *= value;
  if (function() == kAny || function() == kAll) value = Value(value != Value(0) || is_nan(value));
  return State(value, Value(1), index);
}

// In blocks, so that the rounding error grows with the square root of the count.
State reduce_range(uint output_, uint first, uint begin, uint end, uint step_) {
  State state = state_of_nothing();
  for (uint from = begin; from < end; from += 64u * step_) {
    const uint to = min(from + 64u * step_, end);
    State part = state_of_nothing();
    for (uint i = from; i < to; i += step_) {
      part = join(part, from_states() ? stored_state(output_ * reduced + i, outputs * reduced)
                                      : element(i, first));
    }
    state = join(state, part);
  }
  return state;
}

shared Value g_values[256];
shared Value g_scales[256];
shared uint g_indices[256];

void synchronize() {
  if (kOneSubgroup) {
    subgroupBarrier();
  } else {
    barrier();
  }
}

// Returns the state of all invocations to the first of them.
State join_workgroup(State state) {
  const uint lane = gl_LocalInvocationID.x;
  for (uint half_ = gl_WorkGroupSize.x / 2u; half_ != 0u; half_ /= 2u) {
    synchronize();  // what was there before has been read
    g_values[lane] = state.value;
    g_scales[lane] = state.scale;
    g_indices[lane] = state.index;
    synchronize();
    if (lane < half_) {
      state = join(state, State(g_values[lane + half_], g_scales[lane + half_],
                                g_indices[lane + half_]));
    }
  }
  return state;
}

void finish(uint output_, uint place, State state) {
  if (to_states()) {
    store_state(output_ * gl_NumWorkGroups.y + gl_WorkGroupID.y, outputs * gl_NumWorkGroups.y,
                state);
    return;
  }
  Value value = state.value;
#if KEEL_COMPUTE != 0
  if (function() == kMean) value = terms == 0u ? nan() : value / Value(terms);
  if (function() == kNorm) value = sqrt(value);
  if (kHasLogSums && function() == kLogSumExp && !is_nan(value) && abs(value) < infinity()) {
    value += natural_log(state.scale);
  }
#endif
  const bool is_place = function() == kArgmax || function() == kArgmin;
  store_bits(y, y_type(), place, is_place ? uvec2(state.index, 0) : to_bits(value, y_type()));
}

void main() {
  const uint slice = (reduced + gl_NumWorkGroups.y - 1u) / gl_NumWorkGroups.y;
  const uint begin = min(gl_WorkGroupID.y * slice, reduced);
  const uint end = min(begin + slice, reduced);
  if (kColumns) {
    for (uint o = gl_GlobalInvocationID.x; o < outputs;
         o += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
      const uvec2 place = place_of(o);
      finish(o, place.y, reduce_range(o, place.x, begin, end, 1u));
    }
    return;
  }
  for (uint o = gl_WorkGroupID.x; o < outputs; o += gl_NumWorkGroups.x) {
    const uvec2 place = place_of(o);
    const State state = join_workgroup(reduce_range(
        o, place.x, begin + gl_LocalInvocationID.x, end, gl_WorkGroupSize.x));
    if (gl_LocalInvocationID.x == 0u) finish(o, place.y, state);
  }
}
