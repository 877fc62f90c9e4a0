// SPDX-License-Identifier: Apache-2.0
// Matrix products: by the vendor's library if it accepts them, else by kernels/gpu.
#include <keel/packed_weights.hpp>
#include <limits>

#include "backends/gpu/library_products.h"
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

// Both products have these attributes; they are the first of matmul's.
using ProductAttributes = keel_op_batched_matmul_attributes;

int64_t activation_of(const keel_op_call& call) {
  return kit::attributes<keel_op_matmul_attributes>(call).activation;
}

// Whether |tensor| is a matrix with contiguous rows.
bool is_matrix(const keel_tensor& tensor, keel_dtype dtype) {
  if (tensor.rank != 2 || tensor.dtype != dtype) return false;
  if (tensor.shape[0] == 0 || tensor.shape[1] == 0) return true;
  if (tensor.shape[1] != 1 && tensor.strides[1] != 1) return false;
  return tensor.shape[0] == 1 || tensor.strides[0] >= tensor.shape[1];
}

uint64_t row_stride(const keel_tensor& tensor) {
  return static_cast<uint64_t>(tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0]);
}

const keel_tensor* bias_of(const keel_op_call& call) {
  return call.input_count > 2 ? call.inputs[2] : nullptr;
}

uint64_t tiles_of(const keel_tensor& c) {
  return divide_up(static_cast<uint64_t>(c.shape[0]), simt::kMatmulTile) *
         divide_up(static_cast<uint64_t>(c.shape[1]), simt::kMatmulTile);
}

// The dtypes of products: |in| of a and b, |out| of c.
bool is_multiplied(keel_dtype in, keel_dtype out) {
  if (in != KEEL_FLOAT32 && in != KEEL_BFLOAT16 && in != KEEL_FLOAT16) return false;
  return out == in || out == KEEL_FLOAT32;
}

// One kernel for each supported pair of dtypes.
struct KernelsOfDtypes {
  KernelId f32, bf16, bf16_f32, f16, f16_f32;

  KernelId of(keel_dtype in, keel_dtype out) const {
    if (in == KEEL_FLOAT32) return f32;
    if (in == KEEL_BFLOAT16) return out == KEEL_FLOAT32 ? bf16_f32 : bf16;
    return out == KEEL_FLOAT32 ? f16_f32 : f16;
  }
};
constexpr KernelsOfDtypes kMatmul = {KernelId::matmul_f32, KernelId::matmul_bf16,
                                     KernelId::matmul_bf16_f32, KernelId::matmul_f16,
                                     KernelId::matmul_f16_f32};
constexpr KernelsOfDtypes kBatchedMatmul = {
    KernelId::batched_matmul_f32, KernelId::batched_matmul_bf16, KernelId::batched_matmul_bf16_f32,
    KernelId::batched_matmul_f16, KernelId::batched_matmul_f16_f32};

bool supports_matmul(const keel_op_call& call) {
  const keel_dtype in = call.inputs[0]->dtype;
  const keel_dtype out = call.outputs[0]->dtype;
  const keel_tensor* const bias = bias_of(call);
  return is_multiplied(in, out) && is_matrix(*call.inputs[0], in) &&
         is_matrix(*call.inputs[1], in) && is_matrix(*call.outputs[0], out) &&
         (bias == nullptr || is_dense(*bias, in)) &&
         tiles_of(*call.outputs[0]) <= 0x7fffffff;  // of a grid's x
}

// The arguments of the product of |a| and |b|, without bias and activation.
simt::MatmulArguments arguments_of(const keel_op_call& call, const keel_tensor& a,
                                   const keel_tensor& b, const keel_tensor& c) {
  const auto attributes = kit::attributes<ProductAttributes>(call);
  const bool trans_a = attributes.trans_a != 0;
  const bool trans_b = attributes.trans_b != 0;
  simt::MatmulArguments arguments = {};
  arguments.a = address_of(a);
  arguments.b = address_of(b);
  arguments.c = address_of(c);
  arguments.m = static_cast<uint64_t>(c.shape[0]);
  arguments.n = static_cast<uint64_t>(c.shape[1]);
  arguments.k = static_cast<uint64_t>(a.shape[trans_a ? 0 : 1]);
  arguments.a_row = trans_a ? 1 : row_stride(a);
  arguments.a_column = trans_a ? row_stride(a) : 1;
  arguments.b_row = trans_b ? 1 : row_stride(b);
  arguments.b_column = trans_b ? row_stride(b) : 1;
  arguments.c_row = row_stride(c);
  arguments.alpha = static_cast<float>(attributes.alpha);
  arguments.beta = static_cast<float>(attributes.beta);
  return arguments;
}

keel_status run_matmul(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* const bias = bias_of(call);
  if (kit::element_count(c) == 0) return KEEL_OK;
  simt::MatmulArguments arguments = arguments_of(call, a, *call.inputs[1], c);
  arguments.bias = bias == nullptr ? 0 : address_of(*bias);
  arguments.activation = static_cast<uint32_t>(activation_of(call));
  return launch(stream, kMatmul.of(a.dtype, c.dtype), static_cast<uint32_t>(tiles_of(c)),
                arguments);
}

// ---- batches -----------------------------------------------------------------------

// Any matrix of a batch: the matrices differ only in their addresses.
keel_tensor matrix_of(const keel_tensor& tensor) {
  keel_tensor matrix = tensor;
  matrix.rank = 2;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    matrix.shape[axis] = tensor.shape[axis + 1];
    matrix.strides[axis] = tensor.strides[axis + 1];
  }
  return matrix;
}

bool supports_batched_matmul(const keel_op_call& call) {
  const keel_dtype in = call.inputs[0]->dtype;
  const keel_dtype out = call.outputs[0]->dtype;
  if (call.inputs[0]->rank != 3 || !is_multiplied(in, out)) return false;
  const keel_tensor c = matrix_of(*call.outputs[0]);
  return is_matrix(matrix_of(*call.inputs[0]), in) && is_matrix(matrix_of(*call.inputs[1]), in) &&
         is_matrix(c, out) && tiles_of(c) <= 0x7fffffff;
}

keel_status run_batched_matmul(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  if (kit::element_count(c) == 0) return KEEL_OK;
  const keel_tensor first = matrix_of(c);
  const simt::BatchedMatmulArguments arguments = {
      arguments_of(call, matrix_of(a), matrix_of(b), first), static_cast<uint64_t>(c.shape[0]),
      static_cast<uint64_t>(a.strides[0]), static_cast<uint64_t>(b.strides[0]),
      static_cast<uint64_t>(c.strides[0])};
  constexpr uint64_t kMostBlocksY = 65535;
  return launch(stream, kBatchedMatmul.of(a.dtype, c.dtype), static_cast<uint32_t>(tiles_of(first)),
                arguments, static_cast<uint32_t>(std::min(arguments.batch, kMostBlocksY)));
}

// ---- by the vendor's library ---------------------------------------------------------

// The alignment in bytes that a kernel can use. A tensor whose address is still unknown is assumed
// to begin at an allocation.
uint16_t alignment_of(const keel_tensor& tensor) {
  const simt::Address address = address_of(tensor);
  if (address % 256 == 0) return 256;
  return static_cast<uint16_t>(std::min<simt::Address>(address & (~address + 1), 16));
}

// The library counts in int32, and maps a batch to a grid's z.
bool is_counted(int64_t extent, int64_t most = std::numeric_limits<int32_t>::max()) {
  return extent >= 1 && extent <= most;
}

// A call as computed by the library, alone or followed by a kernel that finishes the sums.
struct LibraryCall {
  Product product;
  bool is_ended;        // a kernel adds bias, activation, and beta if |sums_bytes|
  uint64_t sums_bytes;  // of float32 sums beside c; 0: c takes them
};

// Describes the product of |a| and |b|. Returns false for a product that the library cannot
// compute: a dimension is empty or too large, or BLAS defines another result; with a factor of 0
// BLAS does not read a and b, whatever their contents.
bool product_of(const keel_op_call& call, const keel_tensor& a, const keel_tensor& b,
                const keel_tensor& c, Product* out_product) {
  const auto attributes = kit::attributes<ProductAttributes>(call);
  const bool trans_a = attributes.trans_a != 0;
  Product& product = *out_product;
  product = {};
  product.m = c.shape[0];
  product.n = c.shape[1];
  product.k = a.shape[trans_a ? 0 : 1];
  if (!is_counted(product.m) || !is_counted(product.n) || !is_counted(product.k)) return false;
  if (static_cast<float>(attributes.alpha) == 0) return false;
  product.batch = 1;
  product.in = a.dtype;
  product.out = c.dtype;
  product.trans_a = trans_a;
  product.trans_b = attributes.trans_b != 0;
  product.a_row = static_cast<int64_t>(row_stride(a));
  product.b_row = static_cast<int64_t>(row_stride(b));
  product.c_row = static_cast<int64_t>(row_stride(c));
  product.a_alignment = alignment_of(a);
  product.b_alignment = alignment_of(b);
  product.c_alignment = alignment_of(c);
  return true;
}

// Whether the library would add a bias to sums that it has rounded to 16 bits. So do its kernels
// for unaligned operands: cuBLASLt 13 on an H100, one unit off in a third of the elements.
bool rounds_twice(const Product& product) {
  constexpr uint16_t kAligned = 16;
  const auto is_aligned = [&product](int64_t row, uint16_t alignment) {
    return alignment >= kAligned && row * kit::dtype_size(product.out) % kAligned == 0;
  };
  return product.out != KEEL_FLOAT32 && !(is_aligned(product.a_row, product.a_alignment) &&
                                          is_aligned(product.b_row, product.b_alignment) &&
                                          is_aligned(product.c_row, product.c_alignment));
}

// cuBLASLt adds a bias of c's dtype. cuBLASLt does not document its gelu or its accuracy, and has
// no other activation; rocBLAS adds nothing: a kernel finishes float32 sums. For a c of 16 bits,
// the sums are stored beside c.
bool split_matmul(const keel_op_call& call, LibraryCall* out_call) {
  constexpr uint64_t kMostSums = uint64_t{1} << 30;
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* const bias = bias_of(call);
  Product& product = out_call->product;
  if (!product_of(call, *call.inputs[0], *call.inputs[1], c, &product)) return false;
  out_call->is_ended = activation_of(call) != 0 ||
                       (bias != nullptr && (!LibraryProducts::adds_bias() ||
                                            product.in != product.out || rounds_twice(product)));
  out_call->sums_bytes = 0;
  if (!out_call->is_ended) {
    product.bias = bias != nullptr;
    if (product.bias) product.bias_alignment = alignment_of(*bias);
  } else if (product.out != KEEL_FLOAT32) {
    const uint64_t elements = static_cast<uint64_t>(product.m) * static_cast<uint64_t>(product.n);
    if (elements > kMostSums / sizeof(float)) return false;
    out_call->sums_bytes = divide_up(elements * sizeof(float), 256) * 256;
    product.out = KEEL_FLOAT32;
    product.c_row = product.n;
    product.c_alignment = 256;
  }
  return true;
}

bool split_batched_matmul(const keel_op_call& call, LibraryCall* out_call) {
  constexpr int64_t kMostMatrices = 65535;
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  *out_call = {};
  Product& product = out_call->product;
  if (!is_counted(c.shape[0], kMostMatrices) || a.strides[0] < 0 || b.strides[0] < 0 ||
      !product_of(call, matrix_of(a), matrix_of(b), matrix_of(c), &product)) {
    return false;
  }
  product.batch = c.shape[0];
  if (product.batch == 1) return true;  // no step, whatever the tensor's stride
  product.a_batch = a.strides[0];
  product.b_batch = b.strides[0];
  product.c_batch = c.strides[0];
  return true;
}

constexpr KernelsOfDtypes kMatmulEnd = {KernelId::matmul_end_f32, KernelId::matmul_end_bf16,
                                        KernelId::matmul_end_bf16_f32, KernelId::matmul_end_f16,
                                        KernelId::matmul_end_f16_f32};

// Finishes |sums|, which are c itself or are stored beside c.
keel_status end_matmul(Stream& stream, const keel_op_call& call, const LibraryCall& split,
                       const void* sums) {
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* const bias = bias_of(call);
  simt::MatmulEndArguments arguments = {};
  arguments.sums = reinterpret_cast<uintptr_t>(sums);
  arguments.bias = address_or_none(bias);
  arguments.c = address_of(c);
  arguments.rows = static_cast<uint64_t>(split.product.m);
  arguments.columns = static_cast<uint64_t>(split.product.n);
  arguments.sums_row = static_cast<uint64_t>(split.product.c_row);
  arguments.c_row = row_stride(c);
  arguments.beta = split.sums_bytes == 0
                       ? 0.0F
                       : static_cast<float>(kit::attributes<ProductAttributes>(call).beta);
  arguments.activation = static_cast<uint32_t>(activation_of(call));
  const bool is_aligned = (arguments.columns | arguments.sums_row | arguments.c_row) % 4 == 0 &&
                          (arguments.sums | arguments.bias | arguments.c) % 16 == 0;
  arguments.is_aligned = is_aligned ? 1 : 0;
  return launch(stream, kMatmulEnd.of(call.inputs[0]->dtype, c.dtype),
                blocks_for(stream, arguments.rows * arguments.columns, simt::kThreads * 4),
                arguments);
}

template <bool (*kSplit)(const keel_op_call&, LibraryCall*)>
bool library_takes(Device& device, const keel_op_call& call, uint64_t* out_workspace_bytes) {
  LibraryCall split;
  if (!kSplit(call, &split)) return false;
  if (!device.library_products().takes(split.product, out_workspace_bytes)) return false;
  // Reserves both, so that the workspace behind the sums exists for any plan of the later call.
  if (split.sums_bytes != 0) {
    *out_workspace_bytes = split.sums_bytes + LibraryProducts::kWorkspaceBytes;
  }
  return true;
}

template <bool (*kSplit)(const keel_op_call&, LibraryCall*)>
keel_status run_by_library(Stream& stream, const keel_op_call& call, void* workspace,
                           bool* out_ran) {
  *out_ran = false;
  LibraryCall split;
  if (!kSplit(call, &split)) return KEEL_OK;
  const bool has_sums = split.sums_bytes != 0;
  if (has_sums && workspace == nullptr) return KEEL_OK;  // the query saw another alignment
  const auto pointer = [](const keel_tensor* tensor) {
    return reinterpret_cast<void*>(address_or_none(tensor));
  };
  Factors factors = {};
  factors.a = pointer(call.inputs[0]);
  factors.b = pointer(call.inputs[1]);
  factors.bias = pointer(bias_of(call));
  factors.c = has_sums ? workspace : pointer(call.outputs[0]);
  const auto attributes = kit::attributes<ProductAttributes>(call);
  factors.alpha = static_cast<float>(attributes.alpha);
  factors.beta = has_sums ? 0.0F : static_cast<float>(attributes.beta);
  void* const rest = has_sums ? static_cast<char*>(workspace) + split.sums_bytes : workspace;
  const keel_status status =
      stream.device().library_products().run(stream, split.product, factors, rest, out_ran);
  if (status != KEEL_OK || !*out_ran || !split.is_ended) return status;
  return end_matmul(stream, call, split, factors.c);
}

// ---- packed weights: as they are -----------------------------------------------------

bool supports_packed_matmul(const keel_op_call& call) {
  return supports_matmul(PackedAsMatmul(call).call());
}

keel_status run_packed_matmul(Stream& stream, const keel_op_call& call, void* workspace) {
  return run_matmul(stream, PackedAsMatmul(call).call(), workspace);
}

bool library_takes_packed(Device& device, const keel_op_call& call, uint64_t* out_workspace_bytes) {
  return library_takes<split_matmul>(device, PackedAsMatmul(call).call(), out_workspace_bytes);
}

keel_status run_packed_by_library(Stream& stream, const keel_op_call& call, void* workspace,
                                  bool* out_ran) {
  return run_by_library<split_matmul>(stream, PackedAsMatmul(call).call(), workspace, out_ran);
}

constexpr LibraryOp kMatmulByLibrary = {KEEL_GPU_PRODUCTS ".matmul", library_takes<split_matmul>,
                                        run_by_library<split_matmul>};
constexpr LibraryOp kBatchedMatmulByLibrary = {KEEL_GPU_PRODUCTS ".batched_matmul",
                                               library_takes<split_batched_matmul>,
                                               run_by_library<split_batched_matmul>};
constexpr LibraryOp kPackedMatmulByLibrary = {KEEL_GPU_PRODUCTS ".packed_matmul",
                                              library_takes_packed, run_packed_by_library};

}  // namespace

const Op kMatmulOp = {"simt.matmul", supports_matmul, nullptr, run_matmul, &kMatmulByLibrary};
const Op kBatchedMatmulOp = {"simt.batched_matmul", supports_batched_matmul, nullptr,
                             run_batched_matmul, &kBatchedMatmulByLibrary};
const Op kPackedMatmulOp = {"simt.packed_matmul", supports_packed_matmul, nullptr,
                            run_packed_matmul, &kPackedMatmulByLibrary};

}  // namespace keel::gpu
