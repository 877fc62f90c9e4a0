// SPDX-License-Identifier: Apache-2.0
// For plugins of chips that multiply fastest by unpacked weights: their packed weights are
// row-major without gaps, [k,n] at the beginning of the tensor. pack_weights is then a transpose,
// and packed_matmul a matmul, whose kernels may take the calls made here.
#ifndef KEEL_PACKED_WEIGHTS_HPP_
#define KEEL_PACKED_WEIGHTS_HPP_

#include <keel/plugin_kit.hpp>

namespace keel {

// pack_weights as a call of transpose. Borrows from |pack|, and points into the object itself.
class PackAsTranspose {
 public:
  explicit PackAsTranspose(const keel_op_call& pack) : call_(pack) {
    const keel_tensor& b = *pack.inputs[0];
    const bool trans_b = kit::attributes<keel_op_pack_weights_attributes>(pack).trans_b != 0;
    y_ = kit::make_tensor(pack.outputs[0]->data, b.dtype,
                          {b.shape[trans_b ? 1 : 0], b.shape[trans_b ? 0 : 1]});
    y_.byte_offset = pack.outputs[0]->byte_offset;
    transpose_.order = trans_b ? 0x10 : 0x01;
    call_.op = KEEL_OP_TRANSPOSE;
    call_.outputs = &output_;
    call_.attributes = reinterpret_cast<const keel_attribute*>(&transpose_);
  }
  PackAsTranspose(const PackAsTranspose&) = delete;
  PackAsTranspose& operator=(const PackAsTranspose&) = delete;

  const keel_op_call& call() const { return call_; }

 private:
  keel_tensor y_;
  const keel_tensor* output_ = &y_;
  keel_op_transpose_attributes transpose_;
  keel_op_call call_;
};

// packed_matmul as a call of matmul. Borrows from |product|, and points into the object itself.
class PackedAsMatmul {
 public:
  explicit PackedAsMatmul(const keel_op_call& product) : call_(product) {
    const keel_tensor& a = *product.inputs[0];
    const keel_tensor& packed = *product.inputs[1];
    const auto given = kit::attributes<keel_op_packed_matmul_attributes>(product);
    const bool trans_a = given.trans_a != 0;
    b_ = kit::make_tensor(packed.data, packed.dtype,
                          {a.shape[trans_a ? 0 : 1], product.outputs[0]->shape[1]});
    b_.byte_offset = packed.byte_offset;
    inputs_[0] = &a;
    inputs_[2] = product.inputs[2];
    matmul_ = {given.trans_a, /*trans_b=*/0, given.alpha, given.beta, given.activation};
    call_.op = KEEL_OP_MATMUL;
    call_.inputs = inputs_;
    call_.attribute_count = 5;
    call_.attributes = reinterpret_cast<const keel_attribute*>(&matmul_);
  }
  PackedAsMatmul(const PackedAsMatmul&) = delete;
  PackedAsMatmul& operator=(const PackedAsMatmul&) = delete;

  const keel_op_call& call() const { return call_; }

 private:
  keel_tensor b_;
  const keel_tensor* inputs_[3] = {nullptr, &b_, nullptr};
  keel_op_matmul_attributes matmul_;
  keel_op_call call_;
};

}  // namespace keel

#endif  // KEEL_PACKED_WEIGHTS_HPP_
