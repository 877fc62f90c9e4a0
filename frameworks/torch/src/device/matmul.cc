// SPDX-License-Identifier: Apache-2.0
// Products of matrices by Keel's matmul and batched_matmul.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "devices.h"
#include "elementwise.h"
#include "fallback.h"
#include "views.h"

namespace keel_torch::device {

namespace {

using at::Tensor;

bool is_multiplied(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

// The last two dimensions of a tensor as Keel reads them: as stored, or as a stored transpose.
struct Operand {
  Tensor stored;
  bool is_transposed;
};

Operand operand_of(const Tensor& tensor) {
  const int64_t rows = tensor.size(-2);
  const int64_t columns = tensor.size(-1);
  const int64_t row_stride = tensor.stride(-2);
  const int64_t column_stride = tensor.stride(-1);
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    // A stride of an extent of 1 is arbitrary, Keel's kernels want a dense one.
    if (columns == 1 && column_stride != 1) return {tensor.contiguous(), false};
    return {tensor, false};
  }
  if (row_stride == 1 && column_stride >= rows) return {tensor.transpose(-2, -1), true};
  return {tensor.contiguous(), false};
}

// c = alpha a b + beta c + bias for matrices, or for batches of them. False where no kernel can.
bool multiply(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, double alpha,
              double beta) {
  const c10::DeviceIndex device = c.device().index();
  const bool is_batched = c.dim() == 3;
  Operand left = operand_of(a);
  Operand right = operand_of(b);
  for (const bool is_dense : {false, true}) {
    if (is_dense) {
      left = {a.contiguous(), false};
      right = {b.contiguous(), false};
    }
    const View view_a(left.stored);
    const View view_b(right.stored);
    const View view_c(c);
    const int64_t trans_a = left.is_transposed ? 1 : 0;
    const int64_t trans_b = right.is_transposed ? 1 : 0;
    bool is_run = false;
    if (is_batched) {
      is_run = run(device, KEEL_OP_BATCHED_MATMUL, {&view_a, &view_b}, {&view_c},
                   keel_op_batched_matmul_attributes{trans_a, trans_b, alpha, beta});
    } else {
      const View view_bias = bias.defined() ? View(bias) : View();
      is_run = run(device, KEEL_OP_MATMUL,
                   {&view_a, &view_b, bias.defined() ? &view_bias : nullptr}, {&view_c},
                   keel_op_matmul_attributes{trans_a, trans_b, alpha, beta, KEEL_ACTIVATION_NONE});
    }
    if (is_run) return true;
  }
  return false;
}

void check_product(const char* name, const Tensor& a, const Tensor& b, int64_t dims) {
  check_one_device(name, {a, b});
  TORCH_CHECK(a.device() == b.device(), "keel: ", name,
              ": expected all tensors to be on the same device, but found at least two devices, ",
              a.device(), " and ", b.device());
  TORCH_CHECK(a.dim() == dims && b.dim() == dims, name, ": expected ", dims, "-D tensors, got ",
              a.dim(), "-D and ", b.dim(), "-D");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected mat1 and mat2 to have the same dtype, ",
              "but got: ", a.dtype(), " != ", b.dtype());
  TORCH_CHECK(a.size(-1) == b.size(-2), "mat1 and mat2 shapes cannot be multiplied (", a.size(-2),
              "x", a.size(-1), " and ", b.size(-2), "x", b.size(-1), ")");
  TORCH_CHECK(dims == 2 || a.size(0) == b.size(0), name, ": batches of ", a.size(0), " and ",
              b.size(0), " matrices");
}

// A product without an addend, in new memory; undefined where no kernel can.
Tensor product(const Tensor& a, const Tensor& b) {
  if (!is_multiplied(a.scalar_type())) return {};
  at::DimVector shape(a.sizes());
  shape.back() = b.size(-1);
  Tensor c = at::empty(shape, a.options());
  if (c.numel() == 0) return c;
  if (a.size(-1) == 0) return c.zero_();
  return multiply(a, b, {}, c, 1, 0) ? c : Tensor();
}

Tensor mm(const Tensor& self, const Tensor& other) {
  check_product("mm", self, other, 2);
  const Tensor c = product(self, other);
  return c.defined() ? c : KEEL_FALL_BACK(mm, self, other);
}

Tensor bmm(const Tensor& self, const Tensor& other) {
  check_product("bmm", self, other, 3);
  const Tensor c = product(self, other);
  return c.defined() ? c : KEEL_FALL_BACK(bmm, self, other);
}

Tensor& write(Tensor& output, const Tensor& result) {
  TORCH_CHECK(output.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ",
              result.dtype(), ", but got ", output.dtype(), " instead");
  at::native::resize_output(output, result.sizes());
  return output.copy_(result);
}

Tensor& mm_out(const Tensor& self, const Tensor& other, Tensor& output) {
  return write(output, device::mm(self, other));
}
Tensor& bmm_out(const Tensor& self, const Tensor& other, Tensor& output) {
  return write(output, device::bmm(self, other));
}

// alpha a b + beta addend; undefined where no kernel can.
Tensor sum_of_product(const Tensor& addend, const Tensor& a, const Tensor& b,
                      const at::Scalar& beta, const at::Scalar& alpha) {
  if (!is_multiplied(a.scalar_type()) || addend.scalar_type() != a.scalar_type()) return {};
  at::DimVector shape(a.sizes());
  shape.back() = b.size(-1);
  TORCH_CHECK(at::is_expandable_to(addend.sizes(), shape), "keel: an addend of shape ",
              addend.sizes(), " does not expand to ", at::IntArrayRef(shape));
  const double factor = beta.toDouble();
  Tensor c = at::empty(shape, a.options());
  if (c.numel() == 0) return c;
  if (a.size(-1) == 0) {
    return factor == 0 ? c.zero_() : c.copy_(addend.expand(shape)).mul_(beta);
  }
  const bool is_bias = c.dim() == 2 && factor == 1 && addend.dim() == 1 &&
                       addend.size(0) == c.size(1) && addend.stride(0) == 1;
  if (is_bias) {
    return multiply(a, b, addend, c, alpha.toDouble(), 0) ? c : Tensor();
  }
  if (factor != 0) c.copy_(addend.expand(shape));
  return multiply(a, b, {}, c, alpha.toDouble(), factor) ? c : Tensor();
}

Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
             const at::Scalar& alpha) {
  check_product("addmm", a, b, 2);
  check_one_device("addmm", {self, a});
  const Tensor c = sum_of_product(self, a, b, beta, alpha);
  return c.defined() ? c : KEEL_FALL_BACK(addmm, self, a, b, beta, alpha);
}
Tensor& addmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                  const at::Scalar& alpha, Tensor& output) {
  return write(output, device::addmm(self, a, b, beta, alpha));
}
Tensor& addmm_(Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
               const at::Scalar& alpha) {
  return self.copy_(device::addmm(self, a, b, beta, alpha));
}

Tensor baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
               const at::Scalar& alpha) {
  check_product("baddbmm", a, b, 3);
  check_one_device("baddbmm", {self, a});
  const Tensor c = sum_of_product(self, a, b, beta, alpha);
  return c.defined() ? c : KEEL_FALL_BACK(baddbmm, self, a, b, beta, alpha);
}
Tensor& baddbmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                    const at::Scalar& alpha, Tensor& output) {
  return write(output, device::baddbmm(self, a, b, beta, alpha));
}
Tensor& baddbmm_(Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  return self.copy_(device::baddbmm(self, a, b, beta, alpha));
}

Tensor mv(const Tensor& self, const Tensor& vector) {
  TORCH_CHECK(self.dim() == 2 && vector.dim() == 1, "vector + matrix @ vector expected, got ",
              self.dim(), ", ", vector.dim());
  return device::mm(self, vector.unsqueeze(1)).squeeze(1);
}

Tensor dot(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(),
              "D and ", other.dim(), "D tensors");
  return device::mm(self.unsqueeze(0), other.unsqueeze(1)).reshape({});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("mm", &mm);
  library.impl("mm.out", &mm_out);
  library.impl("bmm", &bmm);
  library.impl("bmm.out", &bmm_out);
  library.impl("addmm", &addmm);
  library.impl("addmm_", &addmm_);
  library.impl("addmm.out", &addmm_out);
  library.impl("baddbmm", &baddbmm);
  library.impl("baddbmm_", &baddbmm_);
  library.impl("baddbmm.out", &baddbmm_out);
  library.impl("mv", &mv);
  library.impl("dot", &dot);
}

}  // namespace

}  // namespace keel_torch::device
