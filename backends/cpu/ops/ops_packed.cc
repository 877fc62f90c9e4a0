// SPDX-License-Identifier: Apache-2.0
// pack_weights: copies b into the layout that packed_matmul (ops_matmul.cc) reads fastest.
#include <algorithm>
#include <keel/packed_weights.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/gemm/gemm_bf16.h"
#include "backends/cpu/gemm/matmul_tile.h"
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {
namespace {

// Elements that a core processes at once: some 50 us from memory.
constexpr int64_t kPieceElements = int64_t{1} << 16;

OpSupport pack_weights_query(const keel_op_call& call) {
  gemm::Matrix b;
  if (!describe_matrix(*call.inputs[0],
                       kit::attributes<keel_op_pack_weights_attributes>(call).trans_b != 0, &b))
    return {};
  return {"pack_weights"};
}

void pack_weights_run(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& tensor = *call.inputs[0];
  const bool trans_b = kit::attributes<keel_op_pack_weights_attributes>(call).trans_b != 0;
  const int64_t k = tensor.shape[trans_b ? 1 : 0];
  const int64_t n = tensor.shape[trans_b ? 0 : 1];
  const keel_dtype dtype = tensor.dtype;
  gemm::Matrix packed = packed_order(dtype, k, n);
  if (packed.panel == 0) {
    return kTransposeOperator.run(stream, PackAsTranspose(call).call(), workspace);
  }
  gemm::Matrix b;
  if (k == 0 || n == 0 || !describe_matrix(tensor, trans_b, &b)) return;
  b.data = address<void>(stream, tensor);
  packed.data = address<void>(stream, *call.outputs[0]);
  stream.enqueue([=](ThreadPool& pool) {
    const int64_t width = packed.stride;
    const int64_t panels = (n + width - 1) / width;
    const int64_t piece = std::max<int64_t>(1, kPieceElements / (k * width));
    return pool.try_for(panels, piece, [&](int64_t begin, int64_t end) -> keel_status {
      const int64_t first = begin * width;
      const int64_t columns = std::min(end * width, n) - first;
      if (dtype == KEEL_BFLOAT16) return gemm::pack_bf16(b, k, first, columns, packed);
      gemm::pack_f32(b, k, first, columns, packed);
      return KEEL_OK;
    });
  });
}

}  // namespace

const Operator kPackWeightsOperator = {pack_weights_query, pack_weights_run};

}  // namespace keel::cpu
