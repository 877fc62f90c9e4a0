// SPDX-License-Identifier: Apache-2.0
// matmul, batched_matmul, and products with packed weights.
#include <cfloat>
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

// ---- factors ---------------------------------------------------------------------------

// The axis of a's last two along which the products are summed.
uint32_t sum_axis(const keel_op_call& call, int64_t trans_a) {
  return input(call, 0).rank - (trans_a != 0 ? 2 : 1);
}

// Whether the sums have no terms: the product is 0 then, without a call of the library's product.
bool has_no_terms(const keel_op_call& call, int64_t trans_a) {
  return input(call, 0).shape[sum_axis(call, trans_a)] == 0;
}

// As are_plain; factors without elements count as plain.
bool are_factors_plain(const keel_op_call& call, int64_t trans_a) {
  if (is_empty(call)) return true;
  if (!is_plain(output(call, 0)) || (has_input(call, 2) && !is_plain(input(call, 2)))) {
    return false;
  }
  return has_no_terms(call, trans_a) || (is_plain(input(call, 0)) && is_plain(input(call, 1)));
}

// ---- what follows a product --------------------------------------------------------------

// c = activation(alpha * product + beta * c + bias)
struct Epilogue {
  double alpha;
  double beta;
  int64_t activation;
  bool has_bias;
};

bool supports_epilogue(const Functions& functions, const Epilogue& epilogue) {
  if (functions.aclnnMuls == nullptr || functions.aclnnAdd == nullptr ||
      functions.aclnnInplaceCopy == nullptr) {
    return false;
  }
  switch (epilogue.activation) {
    case KEEL_ACTIVATION_NONE:
      return true;
    case KEEL_ACTIVATION_GELU_TANH:
    case KEEL_ACTIVATION_GELU_ERF:
      return functions.aclnnGeluV2 != nullptr;
    case KEEL_ACTIVATION_SILU:
      return functions.aclnnSilu != nullptr;
    default:
      return false;
  }
}

// The product, the old content and the bias, in float32.
uint64_t epilogue_workspace(const keel_op_call& call) {
  return temporaries_like(output(call, 0), 2) +
         (has_input(call, 2) ? temporaries_like(input(call, 2), 1) : 0);
}

// Changes |product|, which is in float32, and writes it to output 0.
keel_status finish(OperatorCalls& calls, const keel_op_call& call, const Epilogue& epilogue,
                   const View& product, Temporaries* temporaries) {
  const View c = view_of(output(call, 0));
  if (epilogue.alpha != 1) {
    KEEL_TRY(KEEL_ACLNN(calls, Muls, product, Scalar{epilogue.alpha}, product));
  }
  if (epilogue.beta != 0) {
    View before;
    KEEL_TRY(widen(calls, c, temporaries, &before));
    KEEL_TRY(KEEL_ACLNN(calls, Add, product, before, Scalar{epilogue.beta}, product));
  }
  if (epilogue.has_bias) {
    View bias;
    KEEL_TRY(widen(calls, view_of(input(call, 2)), temporaries, &bias));
    KEEL_TRY(KEEL_ACLNN(calls, Add, product, bias, Scalar{1}, product));
  }
  if (epilogue.activation == KEEL_ACTIVATION_SILU) {
    KEEL_TRY(KEEL_ACLNN(calls, Silu, product, product));
  } else if (epilogue.activation != KEEL_ACTIVATION_NONE) {
    const bool is_tanh = epilogue.activation == KEEL_ACTIVATION_GELU_TANH;
    KEEL_TRY(
        KEEL_ACLNN(calls, GeluV2, product, is_tanh ? ACLNN_GELU_TANH : ACLNN_GELU_ERF, product));
  }
  if (c.type == ACL_FLOAT) return KEEL_ACLNN(calls, InplaceCopy, c, product);
  return KEEL_ACLNN(calls, Cast, product, static_cast<aclDataType>(c.type), c);
}

// ---- matmul, batched_matmul --------------------------------------------------------------

bool has_one_type(const keel_op_call& call) {
  return input(call, 0).dtype == output(call, 0).dtype;
}

Epilogue epilogue_of(const keel_op_call& call, const keel_op_matmul_attributes& a) {
  return {a.alpha, a.beta, a.activation, has_input(call, 2)};
}

// Whether one or two of the vendor's calls round as one, and there is a product. aclnnAddmm takes
// factors up to FLT_EPSILON for 0, and rounds the terms of a 16-bit sum that has factors.
bool is_direct(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_matmul_attributes>(call);
  if (has_no_terms(call, a.trans_a)) return false;
  if (!has_one_type(call) || a.activation != KEEL_ACTIVATION_NONE) return false;
  const auto counts = [](double factor) { return std::abs(factor) > FLT_EPSILON; };
  const bool is_wide = is_float32(output(call, 0));
  if (has_input(call, 2)) {
    return functions.aclnnAddmm != nullptr && a.beta == 0 && counts(a.alpha) &&
           (is_wide || a.alpha == 1);
  }
  if (a.beta != 0) {
    return functions.aclnnAddmm != nullptr && is_wide && counts(a.alpha) && counts(a.beta);
  }
  // A factor alone is applied after the product was rounded.
  return a.alpha == 1 || (functions.aclnnMuls != nullptr && is_wide);
}

bool supports_matmul(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_matmul_attributes>(call);
  return functions.aclnnMatmul != nullptr && are_factors_plain(call, a.trans_a) &&
         (is_direct(functions, call) || supports_epilogue(functions, epilogue_of(call, a)));
}

keel_status run_matmul(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const auto attributes = kit::attributes<keel_op_matmul_attributes>(call);
  View a = view_of(input(call, 0));
  View b = view_of(input(call, 1));
  const View c = view_of(output(call, 0));
  if (attributes.trans_a != 0) a = transposed(a);
  if (attributes.trans_b != 0) b = transposed(b);
  if (!is_direct(calls.functions(), call)) {
    const View product = temporaries.take(ACL_FLOAT, c);
    if (has_no_terms(call, attributes.trans_a)) {
      KEEL_TRY(KEEL_ACLNN(calls, InplaceFillScalar, product, Scalar{0}));
    } else {
      KEEL_TRY(KEEL_ACLNN(calls, Matmul, a, b, product, ACLNN_KEEP_DTYPE));
    }
    return finish(calls, call, epilogue_of(call, attributes), product, &temporaries);
  }
  if (has_input(call, 2)) {
    return KEEL_ACLNN(calls, Addmm, view_of(input(call, 2)), a, b, Scalar{1},
                      Scalar{attributes.alpha}, c, ACLNN_KEEP_DTYPE);
  }
  if (attributes.beta != 0) {
    return KEEL_ACLNN(calls, Addmm, c, a, b, Scalar{attributes.beta}, Scalar{attributes.alpha}, c,
                      ACLNN_KEEP_DTYPE);
  }
  KEEL_TRY(KEEL_ACLNN(calls, Matmul, a, b, c, ACLNN_KEEP_DTYPE));
  if (attributes.alpha == 1) return KEEL_OK;
  return KEEL_ACLNN(calls, Muls, c, Scalar{attributes.alpha}, c);
}

Epilogue epilogue_of(const keel_op_batched_matmul_attributes& a) {
  return {a.alpha, a.beta, KEEL_ACTIVATION_NONE, /*has_bias=*/false};
}

// Whether the product is the result, or a float32 result that a factor may follow.
bool is_direct(const Epilogue& epilogue, const keel_op_call& call) {
  if (epilogue.beta != 0) return false;
  return is_float32(output(call, 0)) || (has_one_type(call) && epilogue.alpha == 1);
}

// Whether |tensor| is one matrix for all products: the library wants it as a batch of 1.
bool is_shared(const keel_tensor& tensor) {
  return tensor.shape[0] > 1 && tensor.strides[0] == 0;
}

View batch_view(const keel_tensor& tensor) {
  View view = view_of(tensor);
  if (!is_shared(tensor)) return view;
  view.dims[0] = 1;
  view.strides[0] = view.dims[1] * view.strides[1];
  return view;
}

bool supports_batched_matmul(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_batched_matmul_attributes>(call);
  if (functions.aclnnBatchMatMul == nullptr || functions.aclnnMuls == nullptr) return false;
  if (is_empty(call)) return true;
  const bool has_result = is_plain(output(call, 0)) && supports_epilogue(functions, epilogue_of(a));
  if (has_no_terms(call, a.trans_a)) return has_result;
  if (is_shared(input(call, 0)) && is_shared(input(call, 1))) return false;
  for (uint32_t i = 0; i < 2; ++i) {
    keel_tensor one = input(call, i);
    if (is_shared(one)) one.shape[0] = 1;
    if (!is_plain(one)) return false;
  }
  return has_result || (is_plain(output(call, 0)) && is_direct(epilogue_of(a), call));
}

keel_status run_batched_matmul(OperatorCalls& calls, const keel_op_call& call,
                               Temporaries temporaries) {
  const auto attributes = kit::attributes<keel_op_batched_matmul_attributes>(call);
  const Epilogue epilogue = epilogue_of(attributes);
  View a = batch_view(input(call, 0));
  View b = batch_view(input(call, 1));
  const View c = view_of(output(call, 0));
  if (attributes.trans_a != 0) a = transposed(a);
  if (attributes.trans_b != 0) b = transposed(b);
  if (has_no_terms(call, attributes.trans_a)) {
    const View product = temporaries.take(ACL_FLOAT, c);
    KEEL_TRY(KEEL_ACLNN(calls, InplaceFillScalar, product, Scalar{0}));
    return finish(calls, call, epilogue, product, &temporaries);
  }
  if (!is_direct(epilogue, call)) {
    const View product = temporaries.take(ACL_FLOAT, c);
    KEEL_TRY(KEEL_ACLNN(calls, BatchMatMul, a, b, product, ACLNN_KEEP_DTYPE));
    return finish(calls, call, epilogue, product, &temporaries);
  }
  KEEL_TRY(KEEL_ACLNN(calls, BatchMatMul, a, b, c, ACLNN_KEEP_DTYPE));
  if (epilogue.alpha == 1) return KEEL_OK;
  return KEEL_ACLNN(calls, Muls, c, Scalar{epilogue.alpha}, c);
}

// ---- packed weights ----------------------------------------------------------------------

// Packing and each product with packed weights need the same functions: one that packs and one
// that multiplies must agree.
bool are_packable(const Functions& functions) {
  return functions.aclnnMatmul != nullptr && functions.aclnnPermute != nullptr &&
         supports_epilogue(functions, {1, 1, KEEL_ACTIVATION_GELU_TANH, true}) &&
         supports_epilogue(functions, {1, 1, KEEL_ACTIVATION_SILU, true});
}

// Whether packed weights are in FRACTAL_NZ: the vendor's product of such weights takes neither
// float32 nor an extent of 1. Other weights are packed as they are, row by row.
bool is_fractal(const Functions& functions, keel_dtype dtype, int64_t k, int64_t n) {
  return is_16_bit(dtype) && k > 1 && n > 1 && functions.aclnnMatmulWeightNz != nullptr;
}

bool supports_pack_weights(const Functions& functions, const keel_op_call& call) {
  return are_packable(functions) && are_plain(call);
}

// b in whole blocks.
uint64_t pack_weights_workspace(const keel_op_call& call) {
  constexpr int64_t kBlock = Fractal::kBlock;
  const keel_tensor& b = input(call, 0);
  return Temporaries::rounded(static_cast<uint64_t>(
      2 * kBlock * kBlock * Fractal::blocks(b.shape[0]) * Fractal::blocks(b.shape[1])));
}

// Copies op(b), or pads it with zeroes to whole blocks, and moves the blocks.
keel_status run_pack_weights(OperatorCalls& calls, const keel_op_call& call,
                             Temporaries temporaries) {
  constexpr int64_t kBlock = Fractal::kBlock;
  const keel_dtype dtype = input(call, 0).dtype;
  View b = view_of(input(call, 0)).as(mover_of(kit::dtype_size(dtype)));
  if (kit::attributes<keel_op_pack_weights_attributes>(call).trans_b != 0) b = transposed(b);
  if (!is_fractal(calls.functions(), dtype, b.dims[0], b.dims[1])) {
    return KEEL_ACLNN(
        calls, InplaceCopy,
        dense_like(view_of(output(call, 0)).data, static_cast<aclDataType>(b.type), b), b);
  }
  const auto type = static_cast<aclDataType>(b.type);
  const int64_t rows = Fractal::blocks(b.dims[0]);
  const int64_t columns = Fractal::blocks(b.dims[1]);
  View padded = temporaries.take(type, dense(nullptr, type, {rows * kBlock, columns * kBlock}));
  KEEL_TRY(KEEL_ACLNN(calls, InplaceFillScalar, padded, whole(0)));
  View inner = padded;
  inner.dims[0] = b.dims[0];
  inner.dims[1] = b.dims[1];
  KEEL_TRY(KEEL_ACLNN(calls, InplaceCopy, inner, b));
  const View from = dense(padded.data, type, {rows, kBlock, columns, kBlock});
  const View to = dense(view_of(output(call, 0)).data, type, {columns, rows, kBlock, kBlock});
  return KEEL_ACLNN(calls, Permute, from, Ints{{2, 0, 1, 3}, 4}, to);
}

bool supports_packed_matmul(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_packed_matmul_attributes>(call);
  return are_packable(functions) && are_factors_plain(call, a.trans_a);
}

keel_status run_packed_matmul(OperatorCalls& calls, const keel_op_call& call,
                              Temporaries temporaries) {
  const auto attributes = kit::attributes<keel_op_packed_matmul_attributes>(call);
  View a = view_of(input(call, 0));
  const View c = view_of(output(call, 0));
  if (attributes.trans_a != 0) a = transposed(a);
  const View packed = view_of(input(call, 1));
  const int64_t k = a.dims[1];
  const int64_t n = c.dims[1];
  const Epilogue epilogue = {attributes.alpha, attributes.beta, attributes.activation,
                             has_input(call, 2)};
  const View product = temporaries.take(ACL_FLOAT, c);
  if (has_no_terms(call, attributes.trans_a)) {
    KEEL_TRY(KEEL_ACLNN(calls, InplaceFillScalar, product, Scalar{0}));
  } else if (is_fractal(calls.functions(), input(call, 1).dtype, k, n)) {
    const Fractal weights = {packed.type, k, n, packed.data};
    KEEL_TRY(KEEL_ACLNN(calls, MatmulWeightNz, a, weights, product, ACLNN_KEEP_DTYPE));
  } else {
    const View weights = dense(packed.data, static_cast<aclDataType>(packed.type), {k, n});
    KEEL_TRY(KEEL_ACLNN(calls, Matmul, a, weights, product, ACLNN_KEEP_DTYPE));
  }
  return finish(calls, call, epilogue, product, &temporaries);
}

}  // namespace

const Op kMatmul = {"aclnn.matmul", KEEL_OP_NATIVE, supports_matmul, epilogue_workspace,
                    run_matmul};
const Op kBatchedMatmul = {"aclnn.batch_matmul", KEEL_OP_NATIVE, supports_batched_matmul,
                           epilogue_workspace, run_batched_matmul};
const Op kPackWeights = {"aclnn.permute to FRACTAL_NZ", KEEL_OP_NATIVE, supports_pack_weights,
                         pack_weights_workspace, run_pack_weights};
const Op kPackedMatmul = {"aclnn.matmul_weight_nz", KEEL_OP_NATIVE, supports_packed_matmul,
                          epilogue_workspace, run_packed_matmul};

}  // namespace keel::ascend
