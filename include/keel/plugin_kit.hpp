// SPDX-License-Identifier: Apache-2.0
// Helpers for plugin authors, header-only, on abi.h alone: error text, a guard that stops
// exceptions, vendor libraries opened at run time, tensor walks. A plugin in C needs none of them.
#ifndef KEEL_PLUGIN_KIT_HPP_
#define KEEL_PLUGIN_KIT_HPP_

#include <dlfcn.h>
#include <keel/abi.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <keel/thread_start.hpp>
#include <new>
#include <string>
#include <utility>

namespace keel::kit {

// ---- host services ---------------------------------------------------------

// Host that has queried this plugin; set once by keel_plugin_query_v0.
inline const keel_host* g_host = nullptr;

// Passes core a sentence for |status| and returns |status|:
//   return kit::fail(KEEL_OUT_OF_MEMORY, "alloc: no %llu bytes left", size);
[[gnu::format(printf, 2, 3)]] inline keel_status fail(keel_status status, const char* format, ...) {
  if (!KEEL_HAS(keel_host, g_host, set_error)) return status;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  g_host->set_error(g_host->context, text);
  return status;
}

[[gnu::format(printf, 2, 3)]] inline void log(keel_log_level level, const char* format, ...) {
  if (!KEEL_HAS(keel_host, g_host, log)) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  g_host->log(g_host->context, level, text);
}

// Runs |body|, which returns a keel_status, and converts an exception to a keel_status, so that
// none crosses the ABI.
template <typename Body>
keel_status guard(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const NoThread& error) {
    return fail(KEEL_OUT_OF_MEMORY, "%s", error.what());
  } catch (const std::bad_alloc&) {
    return fail(KEEL_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return fail(KEEL_INTERNAL, "%s", error.what());
  } catch (...) {
    return fail(KEEL_INTERNAL, "unknown exception");
  }
}

// ---- structs that cross ----------------------------------------------------

// The header of a table or an answer of type |Struct|.
template <typename Struct>
constexpr keel_header header(uint32_t type) {
  return {static_cast<uint32_t>(sizeof(Struct)), type, nullptr};
}

// KEEL_UNSUPPORTED if |chain| holds a required extension that is not in |known|.
inline keel_status check_extensions(const void* chain, std::initializer_list<uint32_t> known = {}) {
  for (auto* link = static_cast<const keel_header*>(chain); link != nullptr;
       link = static_cast<const keel_header*>(link->next)) {
    if ((link->type & KEEL_STRUCT_REQUIRED) == 0) continue;
    bool found = false;
    for (uint32_t type : known) found |= type == link->type;
    if (!found) return fail(KEEL_UNSUPPORTED, "required extension %u is not known", link->type);
  }
  return KEEL_OK;
}

// Copies |text|, truncated to fit, into a fixed array of a struct that crosses.
template <size_t Size>
void copy_text(char (&out)[Size], const char* text) {
  std::snprintf(out, Size, "%s", text == nullptr ? "" : text);
}

// ---- vendor libraries --------------------------------------------------------

// A vendor's library, opened at run time and never closed: SDKs leave threads and atexit handlers
// behind. The plugin therefore loads on machines without the SDK.
class VendorLibrary {
 public:
  // Tries |names| in order, in |folder|, or on the dynamic loader's path if |folder| is empty.
  // After a failure error() names what was tried last.
  bool open(const std::string& folder, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const std::string path = folder.empty() ? name : folder + "/" + name;
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return true;
      const char* why = dlerror();
      error_ = why == nullptr ? path + ": unknown error" : why;
    }
    return false;
  }

  // Sets |*out_function| to symbol |name|; NULL and false where the library has no such symbol.
  template <typename Function>
  bool find(const char* name, Function** out_function) {
    static_assert(sizeof(void*) == sizeof(Function*));
    void* address = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    std::memcpy(out_function, &address, sizeof(address));
    if (address == nullptr) error_ = std::string("symbol missing: ") + name;
    return address != nullptr;
  }

  bool is_open() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }

 private:
  void* handle_ = nullptr;
  std::string error_;
};

// ---- operators ---------------------------------------------------------------

// Returns the attributes of |call|, which has passed the schema of the operator of |Attributes|:
//   const auto attributes = kit::attributes<keel_op_matmul_attributes>(call);
template <typename Attributes>
Attributes attributes(const keel_op_call& call) {
  static_assert(sizeof(Attributes) % sizeof(keel_attribute) == 0);
  Attributes result;
  std::memcpy(&result, call.attributes, sizeof(result));  // of one layout
  return result;
}

// ---- tensors -----------------------------------------------------------------

// Bytes of one element; 0 for an unknown dtype.
constexpr uint32_t dtype_size(keel_dtype dtype) {
  constexpr uint8_t sizes[KEEL_DTYPE_COUNT] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
  return dtype < KEEL_DTYPE_COUNT ? sizes[dtype] : 0;
}

constexpr const char* dtype_name(keel_dtype dtype) {
  constexpr const char* names[KEEL_DTYPE_COUNT] = {
      "invalid", "int8",    "int16",    "int32",   "int64",   "uint8",       "uint16",     "uint32",
      "uint64",  "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"};
  return dtype < KEEL_DTYPE_COUNT ? names[dtype] : names[0];
}

// The dtype in which a call of elementwise or reduce computes: KEEL_FLOAT64, KEEL_INT64 or
// KEEL_FLOAT32 (docs/operators.md).
inline keel_dtype compute_dtype(const keel_op_call& call) {
  const int64_t function = call.op == KEEL_OP_REDUCE
                               ? attributes<keel_op_reduce_attributes>(call).function
                               : attributes<keel_op_elementwise_attributes>(call).function;
  const auto within = [function](int64_t first, int64_t last) {
    return function >= first && function <= last;
  };
  const bool is_real =
      call.op == KEEL_OP_REDUCE
          ? function == KEEL_REDUCE_FUNCTION_MEAN || function == KEEL_REDUCE_FUNCTION_NORM ||
                function == KEEL_REDUCE_FUNCTION_LOG_SUM_EXP
          : within(KEEL_ELEMENTWISE_FUNCTION_SQRT, KEEL_ELEMENTWISE_FUNCTION_SIGMOID) ||
                within(KEEL_ELEMENTWISE_FUNCTION_SILU, KEEL_ELEMENTWISE_FUNCTION_GELU) ||
                function == KEEL_ELEMENTWISE_FUNCTION_ATAN2 ||
                within(KEEL_ELEMENTWISE_FUNCTION_TANH_BACKWARD,
                       KEEL_ELEMENTWISE_FUNCTION_SIGMOID_BACKWARD) ||
                within(KEEL_ELEMENTWISE_FUNCTION_SILU_BACKWARD,
                       KEEL_ELEMENTWISE_FUNCTION_GELU_BACKWARD) ||
                within(KEEL_ELEMENTWISE_FUNCTION_LERP, KEEL_ELEMENTWISE_FUNCTION_BERNOULLI);
  keel_dtype widest = is_real ? KEEL_FLOAT32 : KEEL_INT64;
  const auto see = [&widest](const keel_tensor* tensor) {
    if (tensor == nullptr || (tensor->dtype >= KEEL_INT8 && tensor->dtype <= KEEL_UINT64)) return;
    if (widest != KEEL_FLOAT64)
      widest = tensor->dtype == KEEL_FLOAT64 ? KEEL_FLOAT64 : KEEL_FLOAT32;
  };
  for (uint32_t i = 0; i < call.input_count; ++i) see(call.inputs[i]);
  see(call.outputs[0]);
  return widest;
}

// Number of elements; 1 for rank 0.
inline int64_t element_count(const keel_tensor& tensor) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

// Whether the elements are dense in row-major order.
inline bool is_contiguous(const keel_tensor& tensor) {
  int64_t expected = 1;
  for (uint32_t axis = tensor.rank; axis-- > 0;) {
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

inline bool same_shape(const keel_tensor& a, const keel_tensor& b) {
  if (a.rank != b.rank) return false;
  for (uint32_t axis = 0; axis < a.rank; ++axis) {
    if (a.shape[axis] != b.shape[axis]) return false;
  }
  return true;
}

// Bytes from the first element to the end of the last one; 0 when empty.
inline uint64_t span_bytes(const keel_tensor& tensor) {
  int64_t last = 0;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
    last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return (static_cast<uint64_t>(last) + 1) * dtype_size(tensor.dtype);
}

// Address of the first element, in the device's address space.
template <typename Element = void>
Element* first_element(const keel_tensor& tensor) {
  return reinterpret_cast<Element*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// A dense row-major tensor over |data|.
inline keel_tensor make_tensor(void* data, keel_dtype dtype, std::initializer_list<int64_t> shape) {
  keel_tensor tensor = {};
  tensor.size = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.data = data;
  for (int64_t extent : shape) tensor.shape[tensor.rank++] = extent;
  int64_t stride = 1;
  for (uint32_t axis = tensor.rank; axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  return tensor;
}

// Calls |visit(offset)| with the element offset of each element, row-major.
template <typename Visit>
void for_each_element(const keel_tensor& tensor, Visit&& visit) {
  const int64_t count = element_count(tensor);
  int64_t index[KEEL_MAX_RANK] = {};
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    visit(offset);
    for (uint32_t axis = tensor.rank; axis-- > 0;) {
      offset += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      offset -= index[axis] * tensor.strides[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace keel::kit

#endif  // KEEL_PLUGIN_KIT_HPP_
