// SPDX-License-Identifier: Apache-2.0
// Indexing by Keel's gather and scatter; cat, tril and triu by elementwise copies.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "devices.h"
#include "elementwise.h"
#include "fallback.h"
#include "views.h"

namespace keel_torch::device {

namespace {

using at::Tensor;

bool is_index(const Tensor& index) {
  return index.scalar_type() == at::kLong || index.scalar_type() == at::kInt;
}

// The part of |tensor| whose extents are |extents|, except along |axis|.
Tensor cut(const Tensor& tensor, at::IntArrayRef extents, int64_t axis) {
  Tensor part = tensor;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (i != axis && part.size(i) != extents[i]) part = part.narrow(i, 0, extents[i]);
  }
  return part;
}

// A tensor of one dimension for a scalar, which Keel's gather and scatter do not take.
Tensor at_least_one_dim(const Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
}

// Throws for an index outside of the |extent| of |axis|, where KEEL_TORCH_CHECK_INDICES is 1: Keel
// reads 0 and writes nothing there. Waits for the device. |index| has elements.
void check_range(const Tensor& index, int64_t extent, int64_t axis) {
  static const bool checks = [] {
    const char* const value = std::getenv("KEEL_TORCH_CHECK_INDICES");
    return value != nullptr && std::string_view(value) == "1";
  }();
  if (!checks) return;
  const auto least = index.min().item<int64_t>();
  const auto most = index.max().item<int64_t>();
  TORCH_CHECK_INDEX(least >= 0 && most < extent, "keel: index ", least < 0 ? least : most,
                    " is out of bounds for dimension ", axis, " with size ", extent);
}

bool gather_into(const Tensor& y, const Tensor& x, int64_t axis, const Tensor& index) {
  if (y.numel() == 0) return true;
  if (!is_describable(x) || !is_index(index) || x.numel() == 0) return false;
  check_range(index, x.size(axis), axis);
  const View in(x);
  const View at_index(index);
  const View out(y);
  return run(y.device().index(), KEEL_OP_GATHER, {&in, &at_index}, {&out},
             keel_op_gather_attributes{axis});
}

bool scatter_into(const Tensor& y, const Tensor& x, int64_t axis, const Tensor& index, bool adds) {
  if (x.numel() == 0) return true;
  if (!is_describable(x) || !is_index(index) || x.scalar_type() != y.scalar_type()) return false;
  if (adds && y.scalar_type() == at::kBool) return false;
  check_range(index, y.size(axis), axis);
  const View in(x);
  const View at_index(index);
  const View out(y);
  return run(y.device().index(), KEEL_OP_SCATTER, {&in, &at_index}, {&out},
             keel_op_scatter_attributes{axis, adds ? 1 : 0});
}

// |index| of one dimension, repeated along all axes of |shape| but |axis|.
Tensor along(const Tensor& index, at::IntArrayRef shape, int64_t axis) {
  std::vector<int64_t> view(shape.size(), 1);
  view[axis] = index.numel();
  return index.reshape(view).expand(shape);
}

void check_index(const char* name, const Tensor& index) {
  TORCH_CHECK(is_index(index), name, "(): Expected dtype int32/int64 for index");
}

Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, bool is_sparse) {
  TORCH_CHECK(index.numel() == 0 || is_index(index),
              "gather(): Expected dtype int32/int64 for index");
  check_one_device("gather", {self, index});
  const Tensor x = at_least_one_dim(self);
  const Tensor at_index = at_least_one_dim(index);
  const int64_t axis = at::maybe_wrap_dim(dim, x.dim());
  TORCH_CHECK(index.numel() == 0 || x.dim() == at_index.dim(),
              "Index tensor must have the same number of dimensions as input tensor");
  const Tensor y = at::empty(index.sizes(), self.options());
  if (index.numel() == 0) return y;
  if (gather_into(y.dim() == 0 ? y.unsqueeze(0) : y, cut(x, at_index.sizes(), axis), axis,
                  at_index)) {
    return y;
  }
  return KEEL_FALL_BACK(gather, self, dim, index, is_sparse);
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  check_index("index_select", index);
  check_one_device("index_select", {self, index});
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  const Tensor x = at_least_one_dim(self);
  const int64_t axis = at::maybe_wrap_dim(dim, x.dim());
  at::DimVector shape(x.sizes());
  shape[axis] = index.numel();
  const Tensor y = at::empty(shape, self.options());
  if (gather_into(y, x, axis, along(index, shape, axis))) {
    return self.dim() == 0 ? y.squeeze(0) : y;
  }
  return KEEL_FALL_BACK(index_select, self, dim, index);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, c10::SymInt, bool, bool) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  check_index("embedding", indices);
  check_one_device("embedding", {weight, indices});
  at::DimVector shape(indices.sizes());
  shape.push_back(weight.size(1));
  return device::index_select(weight, 0, indices.reshape({-1})).view(shape);
}

Tensor embedding_dense_backward(const Tensor& gradient, const Tensor& indices, c10::SymInt rows,
                                c10::SymInt padding, bool scales) {
  const int64_t width = gradient.size(-1);
  const int64_t count = rows.expect_int();
  Tensor flat = gradient.reshape({-1, width});
  const Tensor index = indices.reshape({-1});
  const int64_t padding_index = padding.expect_int();
  if (scales) {
    const Tensor times =
        at::zeros({count}, gradient.options())
            .scatter_add_(0, index.to(at::kLong), at::ones({index.numel()}, gradient.options()));
    flat = flat / times.index_select(0, index).unsqueeze(1);
  }
  if (padding_index >= 0) flat = flat.masked_fill(index.eq(padding_index).unsqueeze(1), 0);
  const Tensor y = at::zeros({count, width}, gradient.options());
  if (scatter_into(y, flat, 0, along(index, flat.sizes(), 0), true)) return y;
  return at::native::call_fallback_fn_symint<&fall_back, at::_ops::embedding_dense_backward>::call(
      gradient, indices, rows, padding, scales);
}

// Scatters |source|, of which |index|'s extents count, into |self|.
bool scatter_in_place(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      bool adds) {
  if (index.numel() == 0) return true;
  const Tensor y = at_least_one_dim(self);
  const Tensor at_index = at_least_one_dim(index);
  const Tensor x = at_least_one_dim(source);
  const int64_t axis = at::maybe_wrap_dim(dim, y.dim());
  TORCH_CHECK(y.dim() == at_index.dim() && x.dim() == at_index.dim(),
              "Index tensor must have the same number of dimensions as self and src tensors");
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "scatter(): Expected self.dtype to be equal to src.dtype");
  Tensor part = x;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (part.size(i) != at_index.size(i)) part = part.narrow(i, 0, at_index.size(i));
  }
  return scatter_into(cut(y, at_index.sizes(), axis), part, axis, at_index, adds);
}

Tensor& scatter_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  check_one_device("scatter_add_", {self, index, source});
  if (scatter_in_place(self, dim, index, source, true)) return self;
  Tensor result = KEEL_FALL_BACK(scatter_add, self, dim, index, source);
  return self.copy_(result);
}
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  Tensor copy = self.clone(at::MemoryFormat::Contiguous);
  return device::scatter_add_(copy, dim, index, source);
}

Tensor& scatter_src_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  check_one_device("scatter_", {self, index, source});
  if (scatter_in_place(self, dim, index, source, false)) return self;
  Tensor result = KEEL_FALL_BACK2(scatter, src, self, dim, index, source);
  return self.copy_(result);
}
Tensor scatter_src(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  Tensor copy = self.clone(at::MemoryFormat::Contiguous);
  return device::scatter_src_(copy, dim, index, source);
}

Tensor& scatter_value_(Tensor& self, int64_t dim, const Tensor& index, const at::Scalar& value) {
  const Tensor one = at::empty({}, self.options()).fill_(value);
  return device::scatter_src_(self, dim, index, one.expand(index.sizes()));
}
Tensor scatter_value(const Tensor& self, int64_t dim, const Tensor& index,
                     const at::Scalar& value) {
  Tensor copy = self.clone(at::MemoryFormat::Contiguous);
  return device::scatter_value_(copy, dim, index, value);
}

// Sums alone are Keel's; other reductions run on the CPU.
Tensor& scatter_reduce_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                        std::string_view reduction) {
  if (reduction == "add") return device::scatter_add_(self, dim, index, source);
  const Tensor result =
      KEEL_FALL_BACK2(scatter, reduce, self, dim, index, source, c10::string_view(reduction));
  return self.copy_(result);
}
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduction) {
  Tensor copy = self.clone(at::MemoryFormat::Contiguous);
  return device::scatter_reduce_(copy, dim, index, source, reduction);
}
Tensor& scatter_value_reduce_(Tensor& self, int64_t dim, const Tensor& index,
                              const at::Scalar& value, std::string_view reduction) {
  const Tensor one = at::empty({}, self.options()).fill_(value);
  return device::scatter_reduce_(self, dim, index, one.expand(index.sizes()), reduction);
}
Tensor scatter_value_reduce(const Tensor& self, int64_t dim, const Tensor& index,
                            const at::Scalar& value, std::string_view reduction) {
  Tensor copy = self.clone(at::MemoryFormat::Contiguous);
  return device::scatter_value_reduce_(copy, dim, index, value, reduction);
}

Tensor& index_fill_(Tensor& self, int64_t dim, const Tensor& index, const at::Scalar& value) {
  check_index("index_fill_", index);
  const Tensor y = at_least_one_dim(self);
  const int64_t axis = at::maybe_wrap_dim(dim, y.dim());
  at::DimVector shape(y.sizes());
  shape[axis] = index.numel();
  const Tensor one = at::empty({}, self.options()).fill_(value);
  const Tensor from_start = at::where(index.lt(0), index + y.size(axis), index).reshape({-1});
  if (scatter_into(y, one.expand(shape), axis, along(from_start, shape, axis), false)) return self;
  const Tensor result = KEEL_FALL_BACK2(index_fill, int_Scalar, self, dim, index, value);
  return self.copy_(result);
}
Tensor& index_fill_tensor_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return device::index_fill_(self, dim, index, value.item());
}

Tensor& index_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                   const at::Scalar& alpha) {
  check_index("index_add", index);
  check_one_device("index_add_", {self, index, source});
  const Tensor y = at_least_one_dim(self);
  const Tensor x = at_least_one_dim(alpha.toDouble() == 1 ? source : source * alpha);
  const int64_t axis = at::maybe_wrap_dim(dim, y.dim());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "index_add_(): self and source expected to have the same dtype");
  TORCH_CHECK(x.dim() == y.dim() && x.size(axis) == index.numel(),
              "index_add_(): Number of indices should be equal to source.size(dim)");
  if (scatter_into(y, x, axis, along(index, x.sizes(), axis), true)) return self;
  Tensor result = KEEL_FALL_BACK(index_add, self, dim, index, source, alpha);
  return self.copy_(result);
}
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 const at::Scalar& alpha) {
  Tensor copy = self.clone(at::MemoryFormat::Contiguous);
  return device::index_add_(copy, dim, index, source, alpha);
}

// |gradient| has the windows of |size| elements, |step| apart, of |dim|: they may overlap.
Tensor unfold_backward(const Tensor& gradient, c10::SymIntArrayRef shape, int64_t dim, int64_t size,
                       int64_t step) {
  if (shape.empty()) return gradient.sum();
  Tensor y = at::zeros(C10_AS_INTARRAYREF_SLOW(shape), gradient.options());
  if (gradient.numel() == 0) return y;
  const int64_t axis = at::maybe_wrap_dim(dim, y.dim());
  const auto options = gradient.options().dtype(at::kLong);
  const Tensor begin = at::arange(gradient.size(axis), options).mul_(step).unsqueeze(1);
  const Tensor index = (begin + at::arange(size, options)).reshape({-1});
  return device::index_add_(y, axis, index, gradient.movedim(-1, axis + 1).flatten(axis, axis + 1),
                            1);
}

// The one axis that |indices| select along by one integer tensor; -1 otherwise.
int64_t only_axis(const Tensor& self, const c10::List<std::optional<Tensor>>& indices,
                  Tensor& index) {
  int64_t axis = -1;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<Tensor> given = indices[i];
    if (!given.has_value() || !given->defined()) continue;
    if (axis >= 0 || !is_index(*given) || given->device() != self.device()) return -1;
    axis = static_cast<int64_t>(i);
    index = *given;
  }
  return self.dim() == 0 ? -1 : axis;
}

// Python's negative indices count from the end.
Tensor counted_from_start(const Tensor& index, int64_t extent) {
  return at::where(index.lt(0), index + extent, index);
}

Tensor index_tensor(const Tensor& self, const c10::List<std::optional<Tensor>>& indices) {
  Tensor index;
  const int64_t axis = only_axis(self, indices, index);
  if (axis >= 0 && self.size(axis) > 0) {
    const Tensor flat = counted_from_start(index.reshape({-1}), self.size(axis));
    at::DimVector shape(self.sizes());
    shape[axis] = flat.numel();
    const Tensor y = at::empty(shape, self.options());
    if (gather_into(y, self, axis, along(flat, shape, axis))) {
      at::DimVector result(self.sizes().slice(0, axis));
      result.append(index.sizes().begin(), index.sizes().end());
      result.append(self.sizes().begin() + axis + 1, self.sizes().end());
      return y.view(result);
    }
  }
  return KEEL_FALL_BACK2(index, Tensor, self, indices);
}

Tensor& index_put_(Tensor& self, const c10::List<std::optional<Tensor>>& indices,
                   const Tensor& values, bool accumulates, bool is_unsafe) {
  Tensor index;
  const int64_t axis = only_axis(self, indices, index);
  if (axis >= 0 && self.size(axis) > 0 && values.scalar_type() == self.scalar_type()) {
    at::DimVector broadcast(self.sizes().slice(0, axis));
    broadcast.append(index.sizes().begin(), index.sizes().end());
    broadcast.append(self.sizes().begin() + axis + 1, self.sizes().end());
    at::DimVector shape(self.sizes());
    shape[axis] = index.numel();
    const Tensor moved = values.device() == self.device() ? values : values.to(self.device());
    const Tensor x = moved.expand(broadcast).reshape(shape);
    const Tensor flat = counted_from_start(index.reshape({-1}), self.size(axis));
    if (scatter_into(self, x, axis, along(flat, shape, axis), accumulates)) return self;
  }
  // A mask and one value.
  if (indices.size() == 1 && !accumulates && values.numel() == 1) {
    const std::optional<Tensor> mask = indices.get(0);
    if (mask.has_value() && mask->scalar_type() == at::kBool && mask->device() == self.device() &&
        mask->dim() <= self.dim() && self.sizes().slice(0, mask->dim()) == mask->sizes()) {
      Tensor over = *mask;
      while (over.dim() < self.dim()) over = over.unsqueeze(-1);
      return self.masked_fill_(over, values.reshape({}));
    }
  }
  return KEEL_FALL_BACK(_index_put_impl_, self, indices, values, accumulates, is_unsafe);
}

bool is_skipped(const Tensor& tensor) {
  return tensor.dim() == 1 && tensor.size(0) == 0;
}

Tensor cat(const at::ITensorListRef& list, int64_t dim) {
  const std::vector<Tensor> tensors(list.begin(), list.end());
  TORCH_CHECK(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  check_one_device("cat", tensors);
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device() == tensors.front().device(),
                "keel: expected all tensors to be on the same device, but found at least two "
                "devices, ",
                tensors.front().device(), " and ", tensor.device());
    TORCH_CHECK(tensor.dim() > 0, "zero-dimensional tensor cannot be concatenated");
    if (first == nullptr && !is_skipped(tensor)) first = &tensor;
  }
  const at::ScalarType type = at::native::result_type(at::TensorList(tensors));
  if (first == nullptr) return at::empty({0}, tensors.front().options().dtype(type));
  const int64_t axis = at::maybe_wrap_dim(dim, first->dim());
  at::DimVector shape(first->sizes());
  shape[axis] = 0;
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) continue;
    TORCH_CHECK(tensor.dim() == first->dim(), "Tensors must have same number of dimensions: got ",
                first->dim(), " and ", tensor.dim());
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      TORCH_CHECK(i == axis || tensor.size(i) == first->size(i),
                  "Sizes of tensors must match except in dimension ", axis, ". Expected size ",
                  first->size(i), " but got size ", tensor.size(i));
    }
    shape[axis] += tensor.size(axis);
  }
  Tensor y = at::empty(shape, first->options().dtype(type));
  int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) continue;
    y.narrow(axis, begin, tensor.size(axis)).copy_(tensor);
    begin += tensor.size(axis);
  }
  return y;
}

Tensor& cat_out(const at::ITensorListRef& list, int64_t dim, Tensor& output) {
  const Tensor y = device::cat(list, dim);
  at::native::resize_output(output, y.sizes());
  return output.copy_(y);
}

// A bool tensor [rows, columns]: whether column - row <= |diagonal| (|is_lower|) or >= it.
Tensor triangle(const Tensor& self, int64_t diagonal, bool is_lower) {
  TORCH_CHECK(self.dim() >= 2, "tril/triu: input tensor must have at least 2 dimensions");
  const auto options = self.options().dtype(at::kInt);
  const Tensor row = at::arange(self.size(-2), options).unsqueeze(1);
  // Diagonals outside of the tensor are alike, and their differences would wrap.
  const Tensor column =
      at::arange(self.size(-1), options) - std::clamp(diagonal, -self.size(-2), self.size(-1));
  return is_lower ? column.le(row) : column.ge(row);
}

Tensor tril(const Tensor& self, int64_t diagonal) {
  return at::where(triangle(self, diagonal, true), self, at::zeros({}, self.options()));
}
Tensor triu(const Tensor& self, int64_t diagonal) {
  return at::where(triangle(self, diagonal, false), self, at::zeros({}, self.options()));
}
Tensor& tril_(Tensor& self, int64_t diagonal) {
  return self.masked_fill_(triangle(self, diagonal, true).logical_not(), 0);
}
Tensor& triu_(Tensor& self, int64_t diagonal) {
  return self.masked_fill_(triangle(self, diagonal, false).logical_not(), 0);
}
Tensor& tril_out(const Tensor& self, int64_t diagonal, Tensor& output) {
  at::native::resize_output(output, self.sizes());
  return output.copy_(device::tril(self, diagonal));
}
Tensor& triu_out(const Tensor& self, int64_t diagonal, Tensor& output) {
  at::native::resize_output(output, self.sizes());
  return output.copy_(device::triu(self, diagonal));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("gather", &gather);
  library.impl("index_select", &index_select);
  library.impl("embedding", &embedding);
  library.impl("embedding_dense_backward", &embedding_dense_backward);
  library.impl("scatter_add", &scatter_add);
  library.impl("scatter_add_", &scatter_add_);
  library.impl("scatter.src", &scatter_src);
  library.impl("scatter_.src", &scatter_src_);
  library.impl("scatter.value", &scatter_value);
  library.impl("scatter_.value", &scatter_value_);
  library.impl("scatter.reduce", &scatter_reduce);
  library.impl("scatter_.reduce", &scatter_reduce_);
  library.impl("scatter.value_reduce", &scatter_value_reduce);
  library.impl("scatter_.value_reduce", &scatter_value_reduce_);
  library.impl("index_fill_.int_Scalar", &index_fill_);
  library.impl("index_fill_.int_Tensor", &index_fill_tensor_);
  library.impl("index_add", &index_add);
  library.impl("index_add_", &index_add_);
  library.impl("unfold_backward", &unfold_backward);
  library.impl("index.Tensor", &index_tensor);
  library.impl("_index_put_impl_", &index_put_);
  library.impl("cat", &cat);
  library.impl("cat.out", &cat_out);
  library.impl("tril", &tril);
  library.impl("triu", &triu);
  library.impl("tril_", &tril_);
  library.impl("triu_", &triu_);
  library.impl("tril.out", &tril_out);
  library.impl("triu.out", &triu_out);
}

}  // namespace

}  // namespace keel_torch::device
