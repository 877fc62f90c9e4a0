#include "ops/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <limits>

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
    case KEEL_INT32:
      return load<int32_t>(data, element);
    case KEEL_INT64:
      return static_cast<double>(load<int64_t>(data, element));
    case KEEL_UINT8:
      return load<uint8_t>(data, element);
    case KEEL_FLOAT16:
      return to_float(load<float16_t>(data, element));
    case KEEL_BFLOAT16:
      return to_float(load<bfloat16_t>(data, element));
    case KEEL_FLOAT32:
      return load<float>(data, element);
    default:  // no schema allows another
      return std::numeric_limits<double>::quiet_NaN();
  }
}

// Truncates; the nearest end of the range outside of it, 0 for NaN.
template <typename Integer>
Integer saturate(double value) {
  if (std::isnan(value)) return 0;
  // The largest int64 is no double; the next one above is.
  const double beyond = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (value >= beyond) return std::numeric_limits<Integer>::max();
  if (value <= static_cast<double>(std::numeric_limits<Integer>::min())) {
    return std::numeric_limits<Integer>::min();
  }
  return static_cast<Integer>(value);
}

// double to float, to nearest even, with overflow to infinity as IEEE 754 has it.
float to_float32(double value) {
  return static_cast<float>(value);
}

// Inputs of a call in double, and its outputs with room for every element.
class Workspace {
 public:
  Workspace(const keel_op_call& call, ReferenceResult* result) : call_(call), result_(*result) {
    for (uint32_t i = 0; i < call.input_count; ++i) {
      if (call.inputs[i] != nullptr) inputs_[i] = read_tensor(*call.inputs[i]);
    }
    result->outputs.assign(call.output_count, {});
    for (uint32_t o = 0; o < call.output_count; ++o) {
      const auto count = static_cast<size_t>(kit::element_count(*call.outputs[o]));
      result->outputs[o].values.assign(count, 0);
      result->outputs[o].magnitudes.assign(count, 0);
    }
  }

  const std::vector<double>& in(uint32_t index) const { return inputs_[index]; }
  std::vector<double>& out(uint32_t index) { return result_.outputs[index].values; }
  std::vector<double>& size(uint32_t index) { return result_.outputs[index].magnitudes; }
  int64_t extent(uint32_t input, uint32_t axis) const { return call_.inputs[input]->shape[axis]; }
  size_t count() const { return result_.outputs[0].values.size(); }
  int64_t integer(uint32_t attribute) const { return call_.attributes[attribute].i; }
  double real(uint32_t attribute) const { return call_.attributes[attribute].f; }
  const keel_op_call& call() const { return call_; }

 private:
  const keel_op_call& call_;
  ReferenceResult& result_;
  std::vector<double> inputs_[kMaxInputs];
};

void fill(Workspace& w) {
  const double value = round_to_dtype(w.real(0), w.call().outputs[0]->dtype);
  std::fill(w.out(0).begin(), w.out(0).end(), value);
}

void cast(Workspace& w) {
  const keel_dtype dtype = w.call().outputs[0]->dtype;
  for (size_t i = 0; i < w.count(); ++i) w.out(0)[i] = round_to_dtype(w.in(0)[i], dtype);
}

// out = alpha * x + beta * y
void combine(Workspace& w, double alpha, const std::vector<double>& x, double beta,
             const std::vector<double>& y) {
  for (size_t i = 0; i < w.count(); ++i) {
    w.out(0)[i] = alpha * x[i] + beta * y[i];
    w.size(0)[i] = std::abs(alpha * x[i]) + std::abs(beta * y[i]);
  }
}

void scale(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    w.out(0)[i] = w.real(0) * w.in(0)[i];
    w.size(0)[i] = std::abs(w.out(0)[i]);
  }
}

void sum(Workspace& w) {
  const int64_t rows = w.extent(0, 0);
  const int64_t cols = w.extent(0, 1);
  const int64_t axis = w.integer(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const auto to = static_cast<size_t>(axis == 0 ? col : axis == 1 ? row : 0);
      const double value = w.in(0)[static_cast<size_t>(row * cols + col)];
      w.out(0)[to] += value;
      w.size(0)[to] += std::abs(value);
    }
  }
  const int64_t terms = axis == 0 ? rows : axis == 1 ? cols : rows * cols;
  for (double& size : w.size(0)) size *= std::sqrt(static_cast<double>(terms));
}

void matmul(Workspace& w) {
  const bool trans_a = w.integer(0) != 0;
  const bool trans_b = w.integer(1) != 0;
  const auto m = static_cast<size_t>(w.extent(0, trans_a ? 1 : 0));
  const auto k = static_cast<size_t>(w.extent(0, trans_a ? 0 : 1));
  const auto n = static_cast<size_t>(w.extent(1, trans_b ? 0 : 1));
  const double alpha = w.real(2);
  const double beta = w.real(3);
  const std::vector<double>& a = w.in(0);
  const std::vector<double>& b = w.in(1);
  std::vector<double> old;
  if (beta != 0) old = read_tensor(*w.call().outputs[0]);
  const double growth = std::sqrt(static_cast<double>(k));
  std::vector<double> row(n);
  std::vector<double> row_size(n);
  for (size_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), 0);
    std::fill(row_size.begin(), row_size.end(), 0);
    for (size_t l = 0; l < k; ++l) {
      const double left = trans_a ? a[l * m + i] : a[i * k + l];
      for (size_t j = 0; j < n; ++j) {
        const double term = left * (trans_b ? b[j * k + l] : b[l * n + j]);
        row[j] += term;
        row_size[j] += std::abs(term);
      }
    }
    for (size_t j = 0; j < n; ++j) {
      double value = alpha * row[j];
      double size = std::abs(alpha) * growth * row_size[j];
      if (beta != 0) {
        value += beta * old[i * n + j];
        size += std::abs(beta * old[i * n + j]);
      }
      if (w.call().inputs[2] != nullptr) {
        value += w.in(2)[j];
        size += std::abs(w.in(2)[j]);
      }
      w.out(0)[i * n + j] = value;
      w.size(0)[i * n + j] = size;
    }
  }
}

constexpr double kGeluFactor = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

void gelu(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    w.out(0)[i] = 0.5 * x * (1 + std::tanh(kGeluFactor * (x + kGeluCubic * x * x * x)));
    w.size(0)[i] = std::abs(x);  // 1 + tanh cancels to the left of 0
  }
}

void gelu_backward(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    const double dy = w.in(1)[i];
    const double inner = kGeluFactor * (x + kGeluCubic * x * x * x);
    const double slope = kGeluFactor * (1 + 3 * kGeluCubic * x * x);
    const double tanh = std::tanh(inner);
    w.out(0)[i] = dy * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope);
    // 1 - tanh^2 cancels while tanh is not yet 1 in float32, which it is from 9.02 on.
    const double cancelled = std::abs(inner) < 9.02 ? 0.5 * std::abs(x) * slope : 0;
    w.size(0)[i] = std::abs(dy) * (1 + cancelled);
  }
}

void embedding(Workspace& w) {
  const int64_t v = w.extent(0, 0);
  const auto d = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const auto index = static_cast<int64_t>(w.in(1)[i]);
    if (index < 0 || index >= v) continue;
    const double* row = w.in(0).data() + static_cast<size_t>(index) * d;
    std::copy(row, row + d, w.out(0).begin() + static_cast<ptrdiff_t>(i * d));
  }
}

void embedding_backward(Workspace& w) {
  const int64_t v = w.call().outputs[0]->shape[0];
  const auto d = static_cast<size_t>(w.extent(0, 1));
  std::vector<double> terms(static_cast<size_t>(v), 0);
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const auto index = static_cast<int64_t>(w.in(1)[i]);
    if (index < 0 || index >= v) continue;
    const auto row = static_cast<size_t>(index);
    terms[row] += 1;
    for (size_t j = 0; j < d; ++j) {
      w.out(0)[row * d + j] += w.in(0)[i * d + j];
      w.size(0)[row * d + j] += std::abs(w.in(0)[i * d + j]);
    }
  }
  for (size_t i = 0; i < w.count(); ++i) w.size(0)[i] *= std::sqrt(terms[i / d]);
}

void cross_entropy(Workspace& w) {
  const auto v = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.count(); ++i) {
    const std::span<const double> row(w.in(0).data() + i * v, v);
    const double top = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (double logit : row) total += std::exp(logit - top);
    const double logsumexp = top == -kInfinity ? top : top + std::log(total);
    w.out(1)[i] = logsumexp;
    w.size(1)[i] = std::abs(top) + std::abs(std::log(total)) + 1;
    const double label = w.in(1)[i];
    if (label < 0 || label >= static_cast<double>(v)) continue;
    const double logit = row[static_cast<size_t>(label)];
    w.out(0)[i] = logsumexp - logit;
    w.size(0)[i] = w.size(1)[i] + std::abs(logit);
  }
}

void cross_entropy_backward(Workspace& w) {
  const auto v = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const double label = w.in(1)[i];
    if (label < 0 || label >= static_cast<double>(v)) continue;
    const double logsumexp = w.in(2)[i];
    for (size_t j = 0; j < v; ++j) {
      const double logit = w.in(0)[i * v + j];
      const double probability = std::exp(logit - logsumexp);
      const double one = j == static_cast<size_t>(label) ? 1 : 0;
      w.out(0)[i * v + j] = w.real(0) * (probability - one);
      // The exponent is rounded in units of its operands; a masked logit has none.
      const double exponent = probability == 0 ? 0 : 1 + std::abs(logit) + std::abs(logsumexp);
      w.size(0)[i * v + j] = std::abs(w.real(0)) * (probability * exponent + one);
    }
  }
}

void adamw(Workspace& w) {
  const double lr = w.real(0);
  const double beta1 = w.real(1);
  const double beta2 = w.real(2);
  const double eps = w.real(3);
  const double decay = w.real(4);
  const auto step = static_cast<double>(w.integer(5));
  const double correction1 = 1 - std::pow(beta1, step);
  const double correction2 = 1 - std::pow(beta2, step);
  for (size_t i = 0; i < w.count(); ++i) {
    const double p = w.in(0)[i];
    const double g = w.in(1)[i] * w.real(6);
    const double m = beta1 * w.in(2)[i] + (1 - beta1) * g;
    const double m_size = std::abs(beta1 * w.in(2)[i]) + std::abs((1 - beta1) * g);
    const double v = beta2 * w.in(3)[i] + (1 - beta2) * g * g;
    const double rate = lr / (std::sqrt(v / correction2) + eps) / correction1;
    w.out(0)[i] = p - (m * rate + lr * decay * p);
    w.size(0)[i] = std::abs(p) + m_size * rate + lr * decay * std::abs(p);
    w.out(1)[i] = m;
    w.size(1)[i] = m_size;
    w.out(2)[i] = v;
    w.size(2)[i] = std::abs(v);
  }
}

}  // namespace

keel_status run_reference(const keel_op_call& call, ReferenceResult* out_result) {
  CheckError error;
  const keel_status status = check_call(call, Check::kAll, &error);
  if (status != KEEL_OK) return status;
  Workspace w(call, out_result);
  switch (call.op) {
    case KEEL_OP_FILL:
      fill(w);
      break;
    case KEEL_OP_CAST:
      cast(w);
      break;
    case KEEL_OP_ADD:
      combine(w, 1, w.in(0), 1, w.in(1));
      break;
    case KEEL_OP_SCALE:
      scale(w);
      break;
    case KEEL_OP_AXPY:
      combine(w, w.real(0), w.in(0), 1, w.in(1));
      break;
    case KEEL_OP_SUM:
      sum(w);
      break;
    case KEEL_OP_MATMUL:
      matmul(w);
      break;
    case KEEL_OP_GELU:
      gelu(w);
      break;
    case KEEL_OP_GELU_BACKWARD:
      gelu_backward(w);
      break;
    case KEEL_OP_EMBEDDING:
      embedding(w);
      break;
    case KEEL_OP_EMBEDDING_BACKWARD:
      embedding_backward(w);
      break;
    case KEEL_OP_CROSS_ENTROPY:
      cross_entropy(w);
      break;
    case KEEL_OP_CROSS_ENTROPY_BACKWARD:
      cross_entropy_backward(w);
      break;
    case KEEL_OP_ADAMW:
      adamw(w);
      break;
    default:
      return KEEL_UNSUPPORTED;  // a row of the table without a reference: reference_test fails
  }
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
    case KEEL_INT32:
      return store(data, element, saturate<int32_t>(value));
    case KEEL_INT64:
      return store(data, element, saturate<int64_t>(value));
    case KEEL_UINT8:
      return store(data, element, saturate<uint8_t>(value));
    case KEEL_FLOAT16:
      return store(data, element, to_float16(to_float32(value)));
    case KEEL_BFLOAT16:
      return store(data, element, to_bfloat16(to_float32(value)));
    case KEEL_FLOAT32:
      return store(data, element, to_float32(value));
    default:
      return;  // no schema allows another
  }
}

bool element_matches(const Tolerance& tolerance, keel_dtype dtype, double got, double value,
                     double magnitude) {
  if (std::isnan(value)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (std::isinf(value)) return got == value;
  const double bound =
      tolerance.absolute + tolerance.relative * std::abs(value) + tolerance.scale * magnitude;
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
