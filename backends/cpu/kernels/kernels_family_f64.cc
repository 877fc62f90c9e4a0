// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_family_f64.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/folds-inl.h"
#include "backends/cpu/kernels/functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {

const Family<double>* family_f64() {
  static constexpr Family<double> kFamily = make_family<double>(apply_floats<double>);
  return &kFamily;
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(family_f64);

const Family<double>& family_f64() {
  return *HWY_DYNAMIC_DISPATCH(family_f64)();
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
