// SPDX-License-Identifier: Apache-2.0
// Operators that move elements bit for bit, and the sum of elements that are moved to one place.
#include "emulator/shims/aclnn/executor.h"
#include "emulator/shims/beside.h"

namespace keel::emulator::aclnn {
namespace {

// Selects rows of |table| by |index|. The real library does not define an index outside.
Status select_rows(std::vector<Operand>& operands) {
  const Dims& table = operands[0].tensor().dims;
  const int64_t columns = table[1];
  const std::vector<double> indices = operands[1].read();
  for (size_t row = 0; row < indices.size(); ++row) {
    const auto from = static_cast<int64_t>(indices[row]);
    if (from < 0 || from >= table[0]) {
      return {Code::kIllegalAddress, "an index outside of the table"};
    }
    for (int64_t column = 0; column < columns; ++column) {
      operands[2].copy(static_cast<int64_t>(row) * columns + column, operands[0], table,
                       from * columns + column);
    }
  }
  return {};
}

aclnnStatus prepare_selection(const char* name, const aclTensor* table, const aclTensor* index,
                              const aclTensor* out, uint64_t* workspace_size,
                              aclOpExecutor** executor) {
  if (table == nullptr || index == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of(name, table);
  const Tensor& which = tensor_of(name, index);
  const Tensor& to = tensor_of(name, out);
  const bool fits = from.dims.size() == 2 && which.dims.size() == 1 && to.dims.size() == 2 &&
                    to.dims[0] == which.dims[0] && to.dims[1] == from.dims[1] &&
                    from.type == to.type && (which.type == ACL_INT32 || which.type == ACL_INT64);
  if (!fits) return kBadParameter;
  return prepare(name, {table, index, out}, 0, select_rows, workspace_size, executor);
}

// Normalizes |*axis|, which may count from the end; false if |rank| axes lack it.
bool find_axis(size_t rank, int64_t* axis) {
  if (*axis < 0) *axis += static_cast<int64_t>(rank);
  return *axis >= 0 && *axis < static_cast<int64_t>(rank);
}

// Returns whether |index| has the rank of |indexed|, and no larger extent but along |axis|.
bool is_index_of(const Tensor& index, const Tensor& indexed, int64_t axis) {
  if (index.dims.size() != indexed.dims.size()) return false;
  if (index.type != ACL_INT32 && index.type != ACL_INT64) return false;
  for (size_t i = 0; i < index.dims.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && index.dims[i] > indexed.dims[i]) return false;
  }
  return true;
}

// The row-major place in |dims| of element |i| of a tensor of |index_dims|, with the coordinate
// |coordinate| along |axis|; the element's own if |axis| is negative.
int64_t place_in(const Dims& dims, const Dims& index_dims, int64_t i, int64_t axis,
                 int64_t coordinate) {
  int64_t place = 0;
  int64_t stride = 1;
  for (size_t at = dims.size(); at-- > 0;) {
    place += stride * (static_cast<int64_t>(at) == axis ? coordinate : i % index_dims[at]);
    i /= index_dims[at];
    stride *= dims[at];
  }
  return place;
}

// An index below 0 counts from the end.
Status gather(std::vector<Operand>& operands, int64_t axis) {
  const Dims& dims = operands[0].tensor().dims;
  const Dims& index_dims = operands[1].tensor().dims;
  const int64_t extent = dims[static_cast<size_t>(axis)];
  const std::vector<double> indices = operands[1].read();
  for (size_t i = 0; i < indices.size(); ++i) {
    auto coordinate = static_cast<int64_t>(indices[i]);
    if (coordinate < -extent || coordinate >= extent) {
      return {Code::kIllegalAddress, "an index outside of the tensor"};
    }
    if (coordinate < 0) coordinate += extent;
    const auto to = static_cast<int64_t>(i);
    operands[2].copy(to, operands[0], dims, place_in(dims, index_dims, to, axis, coordinate));
  }
  return {};
}

// An index below 0 is outside.
Status scatter_add(std::vector<Operand>& operands, int64_t axis) {
  const Dims& dims = operands[0].tensor().dims;
  const Dims& index_dims = operands[1].tensor().dims;
  const Dims& src_dims = operands[2].tensor().dims;
  std::vector<double> sums = operands[0].read();
  const std::vector<double> indices = operands[1].read();
  const std::vector<double> terms = operands[2].read();
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto coordinate = static_cast<int64_t>(indices[i]);
    if (coordinate < 0 || coordinate >= dims[static_cast<size_t>(axis)]) {
      return {Code::kIllegalAddress, "an index outside of the tensor"};
    }
    const auto at = static_cast<int64_t>(i);
    const int64_t from = place_in(src_dims, index_dims, at, /*axis=*/-1, /*coordinate=*/0);
    const int64_t to = place_in(dims, index_dims, at, axis, coordinate);
    sums[static_cast<size_t>(to)] += terms[static_cast<size_t>(from)];
  }
  operands[3].write(sums);
  return {};
}

}  // namespace
}  // namespace keel::emulator::aclnn

using namespace keel::emulator::aclnn;  // NOLINT: the functions below are C functions
using keel::emulator::Status;

extern "C" {

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (selfRef == nullptr || src == nullptr) return kNullPointer;
  const Tensor& to = tensor_of("aclnnInplaceCopy", selfRef);
  const Tensor& from = tensor_of("aclnnInplaceCopy", src);
  if (to.type != from.type || !broadcasts(from.dims, to.dims)) return kBadParameter;
  return prepare(
      "aclnnInplaceCopy", {src, selfRef}, 0,
      [](std::vector<Operand>& operands) {
        const Dims& dims = operands[1].tensor().dims;
        for (int64_t i = 0; i < count_of(dims); ++i) operands[1].copy(i, operands[0], dims, i);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(InplaceCopy)

aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor* selfRef, const aclScalar* value,
                                                   uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  if (selfRef == nullptr || value == nullptr) return kNullPointer;
  return prepare(
      "aclnnInplaceFillScalar", {selfRef}, 0,
      [scalar = *value](std::vector<Operand>& operands) {
        const Tensor& tensor = operands[0].tensor();
        const bool is_whole = scalar.type == ACL_INT64 || scalar.type == ACL_INT32;
        if (is_whole && !is_float(tensor.type)) {
          operands[0].write_whole(scalar.whole);
        } else {
          operands[0].write(std::vector<double>(static_cast<size_t>(tensor.count()), scalar.value));
        }
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(InplaceFillScalar)

aclnnStatus aclnnPermuteGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims,
                                         aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  if (self == nullptr || dims == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of("aclnnPermute", self);
  const Tensor& to = tensor_of("aclnnPermute", out);
  const size_t rank = from.dims.size();
  if (dims->values.size() != rank || to.dims.size() != rank || from.type != to.type) {
    return kBadParameter;
  }
  // The strides of the input along the axes of the output.
  Dims dense(rank);
  int64_t stride = 1;
  for (size_t axis = rank; axis-- > 0;) {
    dense[axis] = stride;
    stride *= from.dims[axis];
  }
  Dims steps(rank);
  std::vector<bool> seen(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto source = static_cast<size_t>(dims->values[axis]);
    if (source >= rank || seen[source] || to.dims[axis] != from.dims[source]) return kBadParameter;
    seen[source] = true;
    steps[axis] = dense[source];
  }
  return prepare(
      "aclnnPermute", {self, out}, 0,
      [steps](std::vector<Operand>& operands) {
        const Dims& to_dims = operands[1].tensor().dims;
        for (int64_t i = 0; i < count_of(to_dims); ++i) {
          int64_t source = 0;
          int64_t rest = i;
          for (size_t axis = to_dims.size(); axis-- > 0;) {
            source += rest % to_dims[axis] * steps[axis];
            rest /= to_dims[axis];
          }
          operands[1].copy(i, operands[0], operands[0].tensor().dims, source);
        }
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Permute)

aclnnStatus aclnnGatherGetWorkspaceSize(const aclTensor* self, const int64_t dim,
                                        const aclTensor* index, aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (self == nullptr || index == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of("aclnnGather", self);
  const Tensor& which = tensor_of("aclnnGather", index);
  const Tensor& to = tensor_of("aclnnGather", out);
  int64_t axis = dim;
  if (!find_axis(from.dims.size(), &axis) || !is_index_of(which, from, axis) ||
      to.dims != which.dims || to.type != from.type) {
    return kBadParameter;
  }
  return prepare(
      "aclnnGather", {self, index, out}, 0,
      [axis](std::vector<Operand>& operands) { return gather(operands, axis); }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(Gather)

// Sums of integers are not emulated.
aclnnStatus aclnnScatterAddGetWorkspaceSize(const aclTensor* self, int64_t dim,
                                            const aclTensor* index, const aclTensor* src,
                                            aclTensor* out, uint64_t* workspaceSize,
                                            aclOpExecutor** executor) {
  if (self == nullptr || index == nullptr || src == nullptr || out == nullptr) return kNullPointer;
  const char* const name = "aclnnScatterAdd";
  const Tensor& before = tensor_of(name, self);
  const Tensor& which = tensor_of(name, index);
  const Tensor& added = tensor_of(name, src);
  const Tensor& to = tensor_of(name, out);
  const bool fits = find_axis(before.dims.size(), &dim) && is_index_of(which, before, dim) &&
                    is_index_of(which, added, /*axis=*/-1) && is_contiguous(added) &&
                    is_float(before.type) && added.type == before.type && to.type == before.type &&
                    to.dims == before.dims && is_contiguous(to);
  if (!fits) return kBadParameter;
  return prepare(
      name, {self, index, src, out}, 0,
      [dim](std::vector<Operand>& operands) { return scatter_add(operands, dim); }, workspaceSize,
      executor);
}
KEEL_SECOND_PHASE(ScatterAdd)

aclnnStatus aclnnTriuGetWorkspaceSize(const aclTensor* self, int64_t diagonal, aclTensor* out,
                                      uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (self == nullptr || out == nullptr) return kNullPointer;
  const Tensor& from = tensor_of("aclnnTriu", self);
  if (from.dims.size() < 2 || from.dims != tensor_of("aclnnTriu", out).dims ||
      from.type != tensor_of("aclnnTriu", out).type) {
    return kBadParameter;
  }
  return prepare(
      "aclnnTriu", {self, out}, 0,
      [diagonal](std::vector<Operand>& operands) {
        const Dims& dims = operands[0].tensor().dims;
        const int64_t columns = dims.back();
        const int64_t rows = dims[dims.size() - 2];
        std::vector<double> values = operands[0].read();
        for (size_t i = 0; i < values.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          if (at % columns - at / columns % rows < diagonal) values[i] = 0;
        }
        operands[1].write(values);
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(Triu)

aclnnStatus aclnnSWhereGetWorkspaceSize(const aclTensor* condition, const aclTensor* self,
                                        const aclTensor* other, aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (condition == nullptr || self == nullptr || other == nullptr || out == nullptr) {
    return kNullPointer;
  }
  const char* const name = "aclnnSWhere";
  const Tensor& to = tensor_of(name, out);
  const bool fits = tensor_of(name, condition).type == ACL_BOOL &&
                    tensor_of(name, self).type == to.type &&
                    tensor_of(name, other).type == to.type &&
                    broadcasts(tensor_of(name, condition).dims, to.dims) &&
                    broadcasts(tensor_of(name, self).dims, to.dims) &&
                    broadcasts(tensor_of(name, other).dims, to.dims);
  if (!fits) return kBadParameter;
  return prepare(
      name, {condition, self, other, out}, 0,
      [](std::vector<Operand>& operands) {
        const Dims& dims = operands[3].tensor().dims;
        const std::vector<double> chosen = operands[0].read(dims);
        for (size_t i = 0; i < chosen.size(); ++i) {
          const auto index = static_cast<int64_t>(i);
          operands[3].copy(index, operands[chosen[i] != 0 ? 1 : 2], dims, index);
        }
        return Status();
      },
      workspaceSize, executor);
}
KEEL_SECOND_PHASE(SWhere)

aclnnStatus aclnnEmbeddingGetWorkspaceSize(const aclTensor* weight, const aclTensor* indices,
                                           const aclTensor* out, uint64_t* workspaceSize,
                                           aclOpExecutor** executor) {
  return prepare_selection("aclnnEmbedding", weight, indices, out, workspaceSize, executor);
}
KEEL_SECOND_PHASE(Embedding)

aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor* self, int64_t dim,
                                             const aclTensor* index, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (dim != 0) return kBadParameter;
  return prepare_selection("aclnnIndexSelect", self, index, out, workspaceSize, executor);
}
KEEL_SECOND_PHASE(IndexSelect)

}  // extern "C"
