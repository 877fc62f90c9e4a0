// SPDX-License-Identifier: Apache-2.0
// Keel's operators by calls of aclnn.
#ifndef KEEL_BACKENDS_ASCEND_OPS_H_
#define KEEL_BACKENDS_ASCEND_OPS_H_

#include <keel/abi.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>

#include "backends/ascend/operator_calls.h"

namespace keel::ascend {

// The device memory of one call for its intermediate tensors.
class Temporaries {
 public:
  // Each tensor begins at a multiple of |kAlignment| bytes.
  static constexpr uint64_t kAlignment = 512;

  explicit Temporaries(void* memory) : next_(static_cast<char*>(memory)) {}
  static constexpr uint64_t rounded(uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  // A dense tensor of the shape of |like|.
  View take(aclDataType type, const View& like, uint64_t element_bytes = 4);

 private:
  char* next_;
};

struct Op {
  // Names the kernel in `keel ops list`.
  const char* kernel;
  keel_op_level level;
  // Whether the vendor's operators compute exactly this call.
  bool (*supports)(const Functions& functions, const keel_op_call& call);
  // Bytes of temporaries; NULL: none.
  uint64_t (*workspace)(const keel_op_call& call);
  keel_status (*run)(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries);
  // Whether the call's contract fixes an order of sums that the vendor's kernel fixes only where
  // the device has that option (Device::fixes_order); NULL: never.
  bool (*needs_fixed_order)(const keel_op_call& call) = nullptr;
  // Whether the device must cast 8-bit floats.
  bool needs_float8 = false;
};

// NULL if the vendor's library, on |device|, does not compute exactly this call.
const Op* find_op(Device& device, const keel_op_call& call);
// Asks the library for casts to and from 8-bit floats.
bool has_float8_casts(Device& device);

// kFill, kCast, ...: one per operator of keel/ops.h, in the source of its family.
#define KEEL_DECLARE_OP(NUMBER, name, Name) extern const Op k##Name;
KEEL_FOR_EACH_OP(KEEL_DECLARE_OP)
#undef KEEL_DECLARE_OP

// ---- parts of the functions above ------------------------------------------------

inline const keel_tensor& input(const keel_op_call& call, uint32_t index) {
  return *call.inputs[index];
}
inline const keel_tensor& output(const keel_op_call& call, uint32_t index) {
  return *call.outputs[index];
}
inline bool has_input(const keel_op_call& call, uint32_t index) {
  return index < call.input_count && call.inputs[index] != nullptr;
}
// Whether no output has an element, so that there is nothing to run.
bool is_empty(const keel_op_call& call);
// Whether |tensor| has elements, a type of ACL and no stride of 0: the vendor's documents promise
// strided tensors, but do not mention broadcasts by stride.
bool is_plain(const keel_tensor& tensor);
// Whether the call is empty, or all of its tensors are plain.
bool are_plain(const keel_op_call& call);
bool is_16_bit(keel_dtype dtype);
// For Op::needs_fixed_order.
inline bool always(const keel_op_call& /*call*/) {
  return true;
}
inline bool is_float32(const keel_tensor& tensor) {
  return tensor.dtype == KEEL_FLOAT32;
}
// Bytes of |count| temporaries with 4 bytes an element in the shape of |tensor|.
uint64_t temporaries_like(const keel_tensor& tensor, uint64_t count);

// |view| in float32: |view| itself, or a cast of it to |*temporaries|, which is not touched for a
// float32 tensor.
keel_status widen(OperatorCalls& calls, View view, Temporaries* temporaries, View* out_wide);
// Where to write what |view| gets, in float32: to |view| itself, or to |otherwise| if |view| has
// another type. narrow() then casts it to |view|, or does nothing.
inline View wide_of(const View& view, const View& otherwise) {
  return view.type == ACL_FLOAT ? view : otherwise;
}
keel_status narrow(OperatorCalls& calls, const View& wide, const View& view);
// A value of |type| for all elements, of the rank |rank|, that broadcasts.
keel_status constant(OperatorCalls& calls, aclDataType type, double value, uint32_t rank,
                     Temporaries* temporaries, View* out_constant);
// x + bias in float32, one temporary for each of the two and the sum.
keel_status add_bias(OperatorCalls& calls, const View& x, const View& bias,
                     Temporaries* temporaries, View* out_sum);
// |x| of a float32 view, without a function of the library for it. Takes two temporaries.
keel_status absolute(OperatorCalls& calls, const View& x, Temporaries* temporaries, View* out_y);
bool has_checked_indices(const Functions& functions);
// The library does not define an index outside of a table. Writes |indices| - |first|, clamped to
// [0, |rows|), to |out_valid|, and to |out_outside| whether the clamp has changed an index. Takes
// three temporaries of the shape of |indices|.
keel_status check_indices(OperatorCalls& calls, const View& indices, int64_t first, int64_t rows,
                          Temporaries* temporaries, View* out_valid, View* out_outside);

// Returns the failure of a call from the enclosing function.
#define KEEL_TRY(expression)                                \
  do {                                                      \
    const keel_status keel_try_status = (expression);       \
    if (keel_try_status != KEEL_OK) return keel_try_status; \
  } while (false)

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_OPS_H_
