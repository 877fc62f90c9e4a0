// SPDX-License-Identifier: Apache-2.0
// torch.autocast("keel") and the operators of torch.GradScaler.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace keel_torch::device {

namespace {

using at::Tensor;

// Multiplies |tensors| by |inverse_scale|; |found| becomes 1 if an element was NaN or infinite.
void unscale_(at::TensorList tensors, Tensor& found, const Tensor& inverse_scale) {
  for (Tensor tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const Tensor largest = tensor.abs().amax().to(found.scalar_type());
    // NaN is not less, either.
    const Tensor is_bad = largest.lt(INFINITY).logical_not();
    found.copy_(at::maximum(found, is_bad.to(found.scalar_type()).view(found.sizes())));
    tensor.mul_(inverse_scale);
  }
}

Tensor& update_scale_(Tensor& self, Tensor& growth_tracker, const Tensor& found,
                      double growth_factor, double backoff_factor, int64_t growth_interval) {
  const Tensor is_bad = found.reshape({}).ne(0);
  const Tensor successes = growth_tracker.reshape({}) + 1;
  const Tensor grows = successes.eq(growth_interval);
  const Tensor scale = self.reshape({});
  const Tensor grown = at::where(grows, scale * growth_factor, scale);
  self.copy_(at::where(is_bad, scale * backoff_factor, grown).view(self.sizes()));
  const Tensor zero = at::zeros({}, growth_tracker.options());
  growth_tracker.copy_(
      at::where(is_bad.logical_or(grows), zero, successes).view(growth_tracker.sizes()));
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_amp_foreach_non_finite_check_and_unscale_", &unscale_);
  library.impl("_amp_update_scale_", &update_scale_);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(baddbmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(exp, fp32)
  KERNEL_PRIVATEUSEONE(log, fp32)
  KERNEL_PRIVATEUSEONE(pow, Tensor_Scalar, fp32)
  KERNEL_PRIVATEUSEONE(rsqrt, fp32)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(nll_loss, fp32)
  KERNEL_PRIVATEUSEONE(mse_loss, fp32)
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
  KERNEL_PRIVATEUSEONE(softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(log_softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(addcmul, promote)
  KERNEL_PRIVATEUSEONE(addcdiv, promote)
  KERNEL_PRIVATEUSEONE(cat, promote)
  KERNEL_PRIVATEUSEONE(stack, promote)
  KERNEL_PRIVATEUSEONE(index_put, promote)
}

}  // namespace

}  // namespace keel_torch::device
