// SPDX-License-Identifier: Apache-2.0
// The fused steps of torch.optim.Adam and AdamW by Keel's adamw: one operator for a parameter,
// where PyTorch's own loops take a dozen.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "devices.h"
#include "fallback.h"
#include "views.h"

namespace keel_torch::device {

namespace {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

struct Settings {
  double lr;
  double beta1;
  double beta2;
  double weight_decay;
  double eps;
  bool amsgrad;
  bool maximize;
};

// The numbers in |steps|, one float each. Waits for the stream, once for all.
std::vector<float> numbers_of(TensorList steps) {
  std::vector<float> numbers(steps.size(), 0);
  const c10::DeviceIndex device = steps.front().device().index();
  for (size_t i = 0; i < steps.size(); ++i) {
    check(keel_copy(stream_of(device), KEEL_HOST, &numbers[i], handle(device),
                    steps[i].const_data_ptr(), sizeof numbers[i]),
          "reading an optimizer's steps");
  }
  check(keel_stream_synchronize(stream_of(device), KEEL_TIMEOUT_DEFAULT),
        "reading an optimizer's steps");
  return numbers;
}

bool are_of_one_layout(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == at::kFloat &&
         b.scalar_type() == at::kFloat && a.is_non_overlapping_and_dense();
}

// The elements of a dense tensor as they lie.
View flat(const Tensor& tensor) {
  View view(tensor);
  view.rank = 1;
  view.shape[0] = tensor.numel();
  view.strides[0] = 1;
  return view;
}

// |gradient| as |parameter| lies in memory, which Keel's and PyTorch's kernels expect.
Tensor like(const Tensor& parameter, const Tensor& gradient) {
  if (gradient.strides() == parameter.strides() || gradient.sizes() != parameter.sizes()) {
    return gradient;
  }
  return at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options())
      .copy_(gradient);
}

// One parameter's step. Returns false, and has changed nothing, where no kernel can.
bool update(const Tensor& parameter, const Tensor& gradient, const Tensor& mean,
            const Tensor& square, float step, bool is_decoupled, const Settings& settings) {
  if (settings.amsgrad || !are_of_one_layout(parameter, mean) ||
      !are_of_one_layout(parameter, square) || parameter.sizes() != gradient.sizes()) {
    return false;
  }
  if (parameter.numel() == 0) return true;
  Tensor used = gradient;
  double factor = settings.maximize ? -1 : 1;
  if (!is_decoupled && settings.weight_decay != 0) {
    used = at::add(settings.maximize ? gradient.neg() : gradient, parameter, settings.weight_decay);
    factor = 1;
  }
  const View p = flat(parameter);
  used = like(parameter, used);
  const View g = flat(used);
  const View m = flat(mean);
  const View v = flat(square);
  keel_op_adamw_attributes attributes = KEEL_OP_ADAMW_ATTRIBUTES;
  attributes.lr = settings.lr;
  attributes.beta1 = settings.beta1;
  attributes.beta2 = settings.beta2;
  attributes.eps = settings.eps;
  attributes.weight_decay = is_decoupled ? settings.weight_decay : 0;
  attributes.step = static_cast<int64_t>(step);
  attributes.grad_scale = factor;
  return run(parameter.device().index(), KEEL_OP_ADAMW, {&p, &g, &m, &v}, {&p, &m, &v}, attributes);
}

// |fall_back_one|: runs PyTorch's step of the parameter with the given index on the CPU.
template <typename FallBackOne>
void step_all(TensorList parameters, TensorList gradients, TensorList means, TensorList squares,
              TensorList steps, bool is_decoupled, const Settings& settings,
              const OptionalTensor& scale, const OptionalTensor& found_inf,
              const FallBackOne& fall_back_one) {
  TORCH_CHECK(gradients.size() == parameters.size() && means.size() == parameters.size() &&
                  squares.size() == parameters.size() && steps.size() == parameters.size(),
              "keel: a fused optimizer's lists have different lengths");
  if (parameters.empty()) return;
  if (found_inf.has_value() && found_inf->item<float>() != 0) return;
  check_one_device("_fused_adamw_", steps);
  std::vector<float> numbers(steps.size(), 0);
  bool has_numbers = true;
  for (const Tensor& step : steps) {
    has_numbers = has_numbers && step.device().type() == kType && step.numel() == 1 &&
                  step.scalar_type() == at::kFloat;
  }
  if (has_numbers) numbers = numbers_of(steps);
  for (size_t i = 0; i < parameters.size(); ++i) {
    // Unscaled in place, as by PyTorch's own kernels.
    if (scale.has_value()) Tensor(gradients[i]).div_(*scale);
    if (numbers[i] >= 1 && update(parameters[i], gradients[i], means[i], squares[i], numbers[i],
                                  is_decoupled, settings)) {
      continue;
    }
    fall_back_one(i);
  }
}

TensorList one_of(TensorList list, size_t index) {
  return list.empty() ? list : list.slice(index, 1);
}

#define KEEL_FUSED_STEP(NAME, IS_DECOUPLED)                                                        \
  void NAME(TensorList self, TensorList grads, TensorList means, TensorList squares,               \
            TensorList largest, TensorList steps, double lr, double beta1, double beta2,           \
            double weight_decay, double eps, bool amsgrad, bool maximize,                          \
            const OptionalTensor& scale, const OptionalTensor& found_inf) {                        \
    step_all(self, grads, means, squares, steps, IS_DECOUPLED,                                     \
             {lr, beta1, beta2, weight_decay, eps, amsgrad, maximize}, scale, found_inf,           \
             [&](size_t i) {                                                                       \
               KEEL_FALL_BACK(_##NAME, one_of(self, i), like(self[i], grads[i]), one_of(means, i), \
                              one_of(squares, i), one_of(largest, i), one_of(steps, i), lr, beta1, \
                              beta2, weight_decay, eps, amsgrad, maximize, std::nullopt,           \
                              std::nullopt);                                                       \
             });                                                                                   \
  }                                                                                                \
  void NAME##tensor_lr(TensorList self, TensorList grads, TensorList means, TensorList squares,    \
                       TensorList largest, TensorList steps, const Tensor& lr, double beta1,       \
                       double beta2, double weight_decay, double eps, bool amsgrad, bool maximize, \
                       const OptionalTensor& scale, const OptionalTensor& found_inf) {             \
    NAME(self, grads, means, squares, largest, steps, lr.item<double>(), beta1, beta2,             \
         weight_decay, eps, amsgrad, maximize, scale, found_inf);                                  \
  }

KEEL_FUSED_STEP(fused_adam_, false)
KEEL_FUSED_STEP(fused_adamw_, true)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_adam_", &fused_adam_);
  library.impl("_fused_adam_.tensor_lr", &fused_adam_tensor_lr);
  library.impl("_fused_adamw_", &fused_adamw_);
  library.impl("_fused_adamw_.tensor_lr", &fused_adamw_tensor_lr);
}

}  // namespace

}  // namespace keel_torch::device
