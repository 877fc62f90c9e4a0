// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/case_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <limits>
#include <numbers>

#include "ops/testing/conversions.h"
#include "ops/testing/philox.h"
#include "ops/testing/reference.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The two halves of 64 random bits, as numbers in (0, 1].
struct Uniforms {
  explicit Uniforms(uint64_t bits)
      : first((static_cast<double>(bits >> 32) + 1) * 0x1p-32),
        second((static_cast<double>(bits & 0xffffffffu) + 1) * 0x1p-32) {}
  double first;
  double second;
};

double normal(uint64_t bits) {  // Box and Muller
  const Uniforms u(bits);
  return std::sqrt(-2 * std::log(u.first)) * std::cos(2 * std::numbers::pi * u.second);
}

double sign_of(uint64_t bits) {
  return (bits & 1) != 0 ? -1 : 1;
}

// The limits of a float type.
struct FloatLimits {
  double smallest_normal;
  double smallest_subnormal;
  double largest;
};

FloatLimits float_limits(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT16:
      return {0x1p-14, 0x1p-24, 65504};
    case KEEL_BFLOAT16:
      return {0x1p-126, 0x1p-133, 0x1.fep127};
    case KEEL_FLOAT8_E4M3FN:
      return {0x1p-6, 0x1p-9, 448};
    case KEEL_FLOAT8_E5M2:
      return {0x1p-14, 0x1p-16, 57344};
    default:
      return {0x1p-126, 0x1p-149, 0x1.fffffep127};
  }
}

double special(keel_dtype dtype, uint64_t bits) {
  const FloatLimits limits = float_limits(dtype);
  const double values[] = {kNaN,
                           kInfinity,
                           0,
                           limits.largest,
                           limits.smallest_normal,
                           limits.smallest_subnormal,
                           limits.smallest_normal - limits.smallest_subnormal,
                           1};
  return sign_of(bits) * values[bits >> 1 & 7];
}

// Infinities, huge numbers, and arguments near those where e^x and e^-x leave float32's range.
double extreme(keel_dtype dtype, uint64_t bits) {
  const double largest = float_limits(dtype).largest;
  const double values[] = {kNaN, kInfinity, largest, largest / 16, 104, 88.5, 87.25, 40};
  return sign_of(bits) * values[bits >> 1 & 7];
}

// Halfway between two neighbours of bfloat16 or float16, or one float32 step to either side; the
// exponents exceed float16's range at both ends.
double tie(uint64_t bits) {
  const bool to_bfloat16 = (bits & 2) != 0;
  const double steps = to_bfloat16 ? 128 : 1024;
  const auto step = static_cast<double>(bits >> 8 & (to_bfloat16 ? 127 : 1023));
  const auto beside = static_cast<double>(static_cast<int>(bits >> 32 & 3) - 1);
  const double mantissa = 1 + (step + 0.5) / steps + (beside == 2 ? 0 : beside * 0x1p-23);
  return sign_of(bits) * std::ldexp(mantissa, static_cast<int>(bits >> 40 & 31) - 15);
}

// A float type: bits of its mantissa, exponent of its smallest normal number, largest number.
struct FloatFormat {
  int mantissa_bits;
  int least;
  double largest;
};

// Rounding boundaries between two finite values of a 16- or 8-bit float type: the midpoint, or one
// step of float32 to either side. A quarter lies between subnormals, a quarter at an end of the
// type, the rest where float16 has normal numbers.
double edge(uint64_t bits) {
  constexpr FloatFormat kFormats[] = {
      {10, -14, 65504}, {7, -126, 0x1.fep127}, {3, -6, 448}, {2, -14, 57344}};
  const FloatFormat& format = kFormats[bits >> 1 & 3];
  const double unit = std::ldexp(1.0, -format.mantissa_bits);
  const auto halfway = static_cast<double>(bits >> 8 & ((1U << format.mantissa_bits) - 1)) + 0.5;
  const double smallest = std::ldexp(unit, format.least);
  const double last_unit = std::ldexp(unit, std::ilogb(format.largest));
  const double ends[] = {format.largest,
                         format.largest + last_unit / 2,
                         format.largest + last_unit,
                         2 * format.largest,
                         smallest,
                         smallest / 2,
                         smallest / 4,
                         smallest / unit};
  const int first = std::max(format.least, -14);
  const int last = std::min(std::ilogb(format.largest), 15);
  double value = 0;
  switch (bits >> 3 & 3) {
    case 0:
      value = halfway * smallest;
      break;
    case 1:
      value = ends[bits >> 32 & 7];
      break;
    default:
      value = std::ldexp(1 + halfway * unit,
                         first + static_cast<int>(bits >> 24 & 63) % (last - first + 1));
  }
  const auto nearest = static_cast<float>(value);
  constexpr float kFar = std::numeric_limits<float>::infinity();
  const float beside[] = {nearest, std::nextafter(nearest, 0.0F), std::nextafter(nearest, kFar),
                          nearest};
  return sign_of(bits) * beside[bits >> 40 & 3];
}

// Near the ties of integers between float32 numbers, and near the largest value that both types
// hold.
double integral_edge(keel_dtype dtype, uint64_t bits) {
  const auto beside = static_cast<double>(bits >> 8 & 3);
  const double largest = dtype == KEEL_INT32 ? 0x1p31 - 66 : 0x1p31 - 128;
  const double values[] = {0x1p24, 0x1p25, 0x1p30 + 62, largest, 0, 0x1p24 + 4, 254, 65534};
  return sign_of(bits) * (values[bits >> 1 & 7] + beside);
}

double integer(keel_dtype dtype, uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits >> 32);
  switch (dtype) {
    case KEEL_INT8:
      return static_cast<int8_t>(word);
    case KEEL_INT16:
      return static_cast<int16_t>(word);
    case KEEL_UINT8:
      return static_cast<uint8_t>(word);
    case KEEL_UINT16:
      return static_cast<uint16_t>(word);
    case KEEL_UINT32:
    case KEEL_UINT64:
      return word;
    default:
      return static_cast<int32_t>(word);
  }
}

double some_index(int64_t bound, uint64_t bits) {
  return bound == 0 ? 0 : static_cast<double>((bits >> 8) % static_cast<uint64_t>(bound));
}

// Returns whether |element| is the special one in its row.
bool is_lone(const CaseTensor& tensor, uint64_t element) {
  const auto columns = static_cast<uint64_t>(tensor.bound);
  const int64_t place = tensor.places[element / columns % tensor.places.size()];
  return static_cast<int64_t>(element % columns) == place;
}

// Returns entry |element|: its fraction of the total, squared.
double boundary(const CaseTensor& tensor, uint64_t element) {
  const int64_t sequences = tensor.shape[0] - 1;
  if (sequences <= 0) return 0;
  const double part = static_cast<double>(element) / static_cast<double>(sequences);
  return std::floor(part * part * static_cast<double>(tensor.bound));
}

int64_t row_of(const CaseTensor& tensor, uint64_t element) {
  return tensor.bound <= 0 ? 0 : static_cast<int64_t>(element) / tensor.bound;
}

// Returns the offset that the row of |element| scatters around, for kOffset and kOffsetLogits.
// Offsets are not round numbers, so that sums of them are rounded.
double row_offset(const CaseTensor& tensor, uint64_t element) {
  constexpr double kOffsets[] = {120000.3, -12345678, 9876.54, 100.3,
                                 -31234.5, 1234567.8, -1e8,    299.7};
  constexpr double kFloat16Offsets[] = {20016, -9876.54, 1234.5, 100.3, -299.7};
  const auto row = static_cast<size_t>(row_of(tensor, element));
  return round_to_dtype(tensor.dtype == KEEL_FLOAT16
                            ? kFloat16Offsets[row % std::size(kFloat16Offsets)]
                            : kOffsets[row % std::size(kOffsets)],
                        tensor.dtype);
}

// One row in three is constant.
double beside_offset(const CaseTensor& tensor, uint64_t element, uint64_t bits) {
  const double offset = row_offset(tensor, element);
  const int digits = tensor.dtype == KEEL_FLOAT16 ? 10 : tensor.dtype == KEEL_BFLOAT16 ? 7 : 23;
  const double unit = std::ldexp(1.0, std::ilogb(offset) - digits);
  return row_of(tensor, element) % 3 == 0 ? offset : offset + unit * static_cast<double>(bits & 3);
}

// Each row has its own magnitude. One huge row in five is constant.
double by_row_size(const CaseTensor& tensor, uint64_t element, uint64_t bits) {
  constexpr double kHugeRows[] = {0x1p64, 0x1p127, 0x1p60, 0x1p100, 0x1p63, 0x1p126, 0x1p80};
  constexpr double kTinyRows[] = {0x1p-63, 0x1p-100, 0x1p-40, 0x1p-80, 0x1p-50};
  const auto row = static_cast<size_t>(row_of(tensor, element));
  const double size = tensor.distribution == Distribution::kHuge
                          ? kHugeRows[row % std::size(kHugeRows)]
                          : kTinyRows[row % std::size(kTinyRows)];
  if (size > 1 && row % 5 == 4) return 0.75 * size;
  return size * (2 * Uniforms(bits).first - 1);
}

double draw(const CaseTensor& tensor, uint64_t element, uint64_t bits) {
  switch (tensor.distribution) {
    case Distribution::kNormal:
      return normal(bits);
    case Distribution::kUniform:
      return 2 * Uniforms(bits).first - 1;
    case Distribution::kPositive:
      return 0.01 + 0.99 * Uniforms(bits).first;
    case Distribution::kFar:
      return 50 + normal(bits);
    case Distribution::kOffset:
      return beside_offset(tensor, element, bits);
    case Distribution::kHuge:
    case Distribution::kTiny:
      return by_row_size(tensor, element, bits);
    case Distribution::kWide:
      return sign_of(bits) * std::exp2(40 * Uniforms(bits).first - 20);
    case Distribution::kLogits:
      return 4 * normal(bits);
    case Distribution::kMaskedLogits:
      return bits % 5 == 0 ? -kInfinity : 4 * normal(bits);
    case Distribution::kOffsetLogits:
      return row_offset(tensor, element) + 4 * normal(bits);
    case Distribution::kIntegers:
      return integer(tensor.dtype, bits);
    case Distribution::kEighths:
      return sign_of(bits) * static_cast<double>(bits >> 8 & 511) / 8;
    case Distribution::kPowerOfTwo:
      return std::exp2(static_cast<double>(bits >> 8 & 15) - 8);
    case Distribution::kIndices:
      return static_cast<double>(tensor.base) + some_index(tensor.bound, bits);
    case Distribution::kIndicesSomeOutside: {
      const double outside[] = {-1, static_cast<double>(tensor.bound), -0x1p31, 0x1p31 - 1};
      if (tensor.bound == 0 || bits % 4 == 0) return outside[bits >> 2 & 3];
      return some_index(tensor.bound, bits);
    }
    case Distribution::kTies:
      return tie(bits);
    case Distribution::kSpecial:
      return (bits >> 63) != 0 ? special(tensor.dtype, bits) : normal(bits);
    case Distribution::kNonFinite: {
      const double values[] = {kNaN, kInfinity, -kInfinity};
      return bits % 16 == 0 ? values[(bits >> 4) % 3] : normal(bits);
    }
    case Distribution::kExtremeGates:
      if (static_cast<int64_t>(element) % tensor.bound >= tensor.bound / 2) return normal(bits);
      [[fallthrough]];
    case Distribution::kExtreme:
      return (bits >> 63) != 0 ? extreme(tensor.dtype, bits) : normal(bits);
    case Distribution::kSomeNaN:
      return bits % 16 == 0 ? kNaN : normal(bits);
    case Distribution::kSomeFarBelow:
      return bits % 16 == 0 ? -1000 * (1 + Uniforms(bits).first) : normal(bits);
    case Distribution::kSubnormal:
      return sign_of(bits) * 2 * Uniforms(bits).first * float_limits(tensor.dtype).smallest_normal;
    case Distribution::kZeroes:
      return sign_of(bits) * 0.0;
    case Distribution::kFaint:
      return normal(bits) * (tensor.dtype == KEEL_FLOAT16 ? 0x1p-12 : 0x1p-30);
    case Distribution::kLone:
      return is_lone(tensor, element) ? tensor.lone : normal(bits);
    case Distribution::kLoneAmongZeroes:
      return is_lone(tensor, element) ? tensor.lone : 0;
    case Distribution::kMask:
      return (bits & 1) != 0 ? 0 : 1 + static_cast<double>((bits >> 8) % 255);
    case Distribution::kEdges:
      return edge(bits);
    case Distribution::kIntegralEdges:
      return integral_edge(tensor.dtype, bits);
    case Distribution::kEveryValue:   // by its bits
    case Distribution::kConversions:  // likewise
    case Distribution::kBoundaries:   // by the element
    case Distribution::kLogSumExp:    // made from the logits, by CaseData
    case Distribution::kNaN:          // left as set bits
      break;
  }
  return kNaN;
}

keel_tensor view(const CaseTensor& tensor, void* data) {
  keel_tensor result = {};
  result.size = sizeof(result);
  result.dtype = tensor.dtype;
  result.rank = static_cast<uint32_t>(tensor.shape.size());
  result.data = data;
  result.byte_offset = tensor.offset * kit::dtype_size(tensor.dtype);
  for (uint32_t axis = 0; axis < result.rank; ++axis) {
    result.shape[axis] = tensor.shape[axis];
    result.strides[axis] = tensor.strides[axis];
  }
  return result;
}

void fill_tensor(const CaseTensor& tensor, uint64_t seed, uint64_t key, uint32_t index,
                 void* data) {
  const keel_tensor target = view(tensor, data);
  char* first = kit::first_element<char>(target);
  uint64_t element = 0;
  kit::for_each_element(target, [&](int64_t offset) {
    if (tensor.distribution == Distribution::kNaN) {
      const uint32_t size = kit::dtype_size(tensor.dtype);
      std::memset(first + offset * size, 0xff, size);
    } else if (tensor.distribution == Distribution::kEveryValue) {
      const uint32_t size = kit::dtype_size(tensor.dtype);
      std::memcpy(first + offset * size, &element, size);  // little endian
      ++element;
    } else if (tensor.distribution == Distribution::kConversions) {
      store_conversion(first, tensor.dtype, static_cast<keel_dtype>(tensor.bound), offset,
                       element++);
    } else if (tensor.distribution == Distribution::kBoundaries) {
      store_element(first, tensor.dtype, offset, boundary(tensor, element++));
    } else {
      const uint64_t bits = random_bits(seed, key, index, element);
      store_element(first, tensor.dtype, offset, draw(tensor, element++, bits));
    }
  });
}

// Fills in the logsumexp that cross_entropy computes for |logits|.
void fill_logsumexp(const keel_tensor& logits, const keel_tensor& logsumexp) {
  const int64_t rows = logits.shape[0];
  std::vector<int32_t> labels(static_cast<size_t>(rows), 0);
  std::vector<float> loss(static_cast<size_t>(rows));
  const keel_tensor label_tensor = kit::make_tensor(labels.data(), KEEL_INT32, {rows});
  const keel_tensor loss_tensor = kit::make_tensor(loss.data(), KEEL_FLOAT32, {rows});
  const keel_tensor* inputs[] = {&logits, &label_tensor};
  const keel_tensor* outputs[] = {&loss_tensor, &logsumexp};
  keel_op_call call = {};
  call.header = kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_CROSS_ENTROPY;
  call.input_count = 2;
  call.output_count = 2;
  call.inputs = inputs;
  call.outputs = outputs;
  ReferenceResult result;
  if (run_reference(call, &result) != KEEL_OK) return;
  size_t row = 0;
  kit::for_each_element(logsumexp, [&](int64_t offset) {
    store_element(kit::first_element(logsumexp), logsumexp.dtype, offset,
                  result.outputs[1].values[row++]);
  });
}

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t case_key, uint32_t tensor, uint64_t element) {
  const std::array<uint32_t, 4> words =
      philox4x32({static_cast<uint32_t>(element),
                  // Elements are below 2^56 and tensors below 2^8 in every call.
                  static_cast<uint32_t>(element >> 32) | tensor << 24,
                  static_cast<uint32_t>(case_key), static_cast<uint32_t>(case_key >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{words[1]} << 32 | words[0];
}

uint64_t case_key(std::string_view id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char letter : id) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  return hash;
}

uint64_t allocation_bytes(const CaseTensor& tensor) {
  const keel_tensor layout = view(tensor, nullptr);
  const uint64_t bytes = kit::span_bytes(layout);
  return bytes == 0 ? 0 : layout.byte_offset + bytes;
}

CaseData::CaseData(const Case& source, uint64_t seed) : case_(source) {
  const auto input_count = static_cast<uint32_t>(case_.inputs.size());
  const auto output_count = static_cast<uint32_t>(case_.outputs.size());
  memory_.resize(input_count + output_count);
  std::vector<void*> bases(memory_.size(), nullptr);
  const uint64_t key = case_key(case_.id);
  const auto make = [&](const CaseTensor& tensor, uint32_t index) {
    const uint64_t bytes = allocation_bytes(tensor);
    if (!tensor.present || bytes == 0) return;
    memory_[index].assign(bytes, std::byte{0xa5});
    bases[index] = memory_[index].data();
    fill_tensor(tensor, seed, key, index, bases[index]);
  };
  for (uint32_t i = 0; i < input_count; ++i) make(case_.inputs[i], i);
  for (uint32_t o = 0; o < output_count; ++o) {
    if (case_.in_place[o] < 0) {
      make(case_.outputs[o], input_count + o);
    } else {
      bases[input_count + o] = bases[static_cast<size_t>(case_.in_place[o])];
    }
  }
  call_ =
      rebind({bases.data(), input_count}, {bases.data() + input_count, output_count}, &storage_);
  for (uint32_t i = 0; i < input_count; ++i) {
    if (case_.inputs[i].distribution == Distribution::kLogSumExp && bases[i] != nullptr) {
      fill_logsumexp(*call_.inputs[0], *call_.inputs[i]);
    }
  }
}

std::span<std::byte> CaseData::input(uint32_t index) {
  return memory_[index];
}

std::span<std::byte> CaseData::output(uint32_t index) {
  const int32_t place = case_.in_place[index];
  return memory_[place >= 0 ? static_cast<size_t>(place) : case_.inputs.size() + index];
}

keel_op_call CaseData::rebind(std::span<void* const> inputs, std::span<void* const> outputs,
                              Storage* storage) const {
  storage->tensors.clear();
  storage->pointers.clear();
  storage->tensors.reserve(inputs.size() + outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    storage->tensors.push_back(view(case_.inputs[i], inputs[i]));
    storage->pointers.push_back(case_.inputs[i].present ? &storage->tensors.back() : nullptr);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    storage->tensors.push_back(view(case_.outputs[o], outputs[o]));
    storage->pointers.push_back(&storage->tensors.back());
  }
  keel_op_call call = {};
  call.header = kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL);
  call.op = case_.op;
  call.input_count = static_cast<uint32_t>(inputs.size());
  call.output_count = static_cast<uint32_t>(outputs.size());
  call.attribute_count = static_cast<uint32_t>(case_.attributes.size());
  call.inputs = storage->pointers.data();
  call.outputs = storage->pointers.data() + inputs.size();
  call.attributes = case_.attributes.data();
  return call;
}

}  // namespace keel::ops
