// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

template <typename Element>
Element load(const void* data, int64_t element) {
  Element value;
  std::memcpy(&value, static_cast<const char*>(data) + element * int64_t{sizeof(Element)},
              sizeof(Element));
  return value;
}

template <typename Element>
void store(void* data, int64_t element, Element value) {
  std::memcpy(static_cast<char*>(data) + element * int64_t{sizeof(Element)}, &value,
              sizeof(Element));
}

double load_element(const void* data, keel_dtype dtype, int64_t element) {
  switch (dtype) {
    case KEEL_INT8:
      return load<int8_t>(data, element);
    case KEEL_INT16:
      return load<int16_t>(data, element);
    case KEEL_INT32:
      return load<int32_t>(data, element);
    case KEEL_INT64:
      return static_cast<double>(load<int64_t>(data, element));
    case KEEL_UINT8:
      return load<uint8_t>(data, element);
    case KEEL_UINT16:
      return load<uint16_t>(data, element);
    case KEEL_UINT32:
      return load<uint32_t>(data, element);
    case KEEL_UINT64:
      return static_cast<double>(load<uint64_t>(data, element));
    case KEEL_FLOAT8_E4M3FN:
      return to_float(load<float8_e4m3_t>(data, element));
    case KEEL_FLOAT8_E5M2:
      return to_float(load<float8_e5m2_t>(data, element));
    case KEEL_FLOAT16:
      return to_float(load<float16_t>(data, element));
    case KEEL_BFLOAT16:
      return to_float(load<bfloat16_t>(data, element));
    case KEEL_FLOAT32:
      return load<float>(data, element);
    case KEEL_FLOAT64:
      return load<double>(data, element);
    default:  // no schema allows another dtype
      return std::numeric_limits<double>::quiet_NaN();
  }
}

// Truncates. Values outside the range give the nearest end of the range, NaN gives 0.
template <typename Integer>
Integer saturate(double value) {
  if (std::isnan(value)) return 0;
  // The largest int64 is not a double; the next larger integer is.
  const double beyond = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (value >= beyond) return std::numeric_limits<Integer>::max();
  if (value <= static_cast<double>(std::numeric_limits<Integer>::min())) {
    return std::numeric_limits<Integer>::min();
  }
  return static_cast<Integer>(value);
}

// Converts to float, to nearest even, with overflow to infinity as in IEEE 754.
float to_float32(double value) {
  return static_cast<float>(value);
}

#define KEEL_REFERENCE_ENTRY(NUMBER, name, Name) &name##_reference,
constexpr void (*kReferences[])(Workspace&) = {nullptr, KEEL_FOR_EACH_OP(KEEL_REFERENCE_ENTRY)};
#undef KEEL_REFERENCE_ENTRY

}  // namespace

keel_status run_reference(const keel_op_call& call, ReferenceResult* out_result) {
  CheckError error;
  const keel_status status = check_call(call, Check::kAll, &error);
  if (status != KEEL_OK) return status;
  Workspace w(call, out_result);
  kReferences[call.op](w);
  return KEEL_OK;
}

double round_to_dtype(double value, keel_dtype dtype) {
  alignas(8) char element[8];
  store_element(element, dtype, 0, value);
  return load_element(element, dtype, 0);
}

std::vector<double> read_tensor(const keel_tensor& tensor) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(kit::element_count(tensor)));
  const void* data = kit::first_element<const char>(tensor);
  kit::for_each_element(
      tensor, [&](int64_t offset) { values.push_back(load_element(data, tensor.dtype, offset)); });
  return values;
}

void store_element(void* data, keel_dtype dtype, int64_t element, double value) {
  switch (dtype) {
    case KEEL_INT8:
      return store(data, element, saturate<int8_t>(value));
    case KEEL_INT16:
      return store(data, element, saturate<int16_t>(value));
    case KEEL_INT32:
      return store(data, element, saturate<int32_t>(value));
    case KEEL_INT64:
      return store(data, element, saturate<int64_t>(value));
    case KEEL_UINT8:
      return store(data, element, saturate<uint8_t>(value));
    case KEEL_UINT16:
      return store(data, element, saturate<uint16_t>(value));
    case KEEL_UINT32:
      return store(data, element, saturate<uint32_t>(value));
    case KEEL_UINT64:
      return store(data, element, saturate<uint64_t>(value));
    case KEEL_FLOAT8_E4M3FN:
      return store(data, element, to_float8_e4m3(to_float32(value)));
    case KEEL_FLOAT8_E5M2:
      return store(data, element, to_float8_e5m2(to_float32(value)));
    case KEEL_FLOAT16:
      return store(data, element, to_float16(to_float32(value)));
    case KEEL_BFLOAT16:
      return store(data, element, to_bfloat16(to_float32(value)));
    case KEEL_FLOAT32:
      return store(data, element, to_float32(value));
    case KEEL_FLOAT64:
      return store(data, element, value);
    default:
      return;  // no schema allows another dtype
  }
}

double bound_of(const Tolerance& tolerance, double value, double magnitude) {
  return tolerance.absolute + tolerance.relative * std::abs(value) + tolerance.scale * magnitude;
}

bool element_matches(const Tolerance& tolerance, keel_dtype dtype, double got, double value,
                     double magnitude) {
  if (std::isnan(value)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (std::isinf(value)) return got == value;
  // With truncation any bound, however small, could reach the next lower integer.
  if (kit::is_integer(dtype)) return got == round_to_dtype(value, dtype);
  const double bound = bound_of(tolerance, value, magnitude);
  return got >= round_to_dtype(value - bound, dtype) && got <= round_to_dtype(value + bound, dtype);
}

double normalised_error(std::span<const double> got, std::span<const double> values,
                        double absolute) {
  double error = 0;
  double energy = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(values[i])) continue;
    const double difference = std::abs(got[i] - values[i]);
    if (difference > absolute) error += difference * difference;
    energy += values[i] * values[i];
  }
  return energy == 0 ? 0 : error / energy;
}

}  // namespace keel::ops
