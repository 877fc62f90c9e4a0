// SPDX-License-Identifier: Apache-2.0
// run_fallback: runs an operator on a CPU device, for a device without a kernel for it.
#include <array>
#include <keel/plugin_kit.hpp>
#include <utility>
#include <vector>

#include "core/copy.h"
#include "ops/dispatch.h"
#include "ops/owned_call.h"
#include "ops/schema.h"

namespace keel::ops {
namespace {

// A tensor's bytes as |count| rows of |bytes|, |pitch| apart.
struct Rows {
  uint64_t count = 1;
  uint64_t bytes = 0;
  uint64_t pitch = 0;
  bool operator==(const Rows&) const = default;
};

// Each row is a separate copy, which takes 1 to 2 us, more with a chip's queue. Beyond this many
// rows the gaps are copied too.
constexpr uint64_t kMostRows = 1024;

// Returns false for tensors with different gaps, or with too many rows.
bool rows_of(const keel_tensor& tensor, Rows* out_rows) {
  std::array<std::pair<uint64_t, uint64_t>, KEEL_MAX_RANK> axes;  // stride in bytes, extent
  uint32_t count = 0;
  const uint64_t element = kit::dtype_size(tensor.dtype);
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 1) continue;
    if (tensor.strides[axis] <= 0) return false;
    const std::pair added{static_cast<uint64_t>(tensor.strides[axis]) * element,
                          static_cast<uint64_t>(tensor.shape[axis])};
    uint32_t at = count++;
    for (; at > 0 && added < axes[at - 1]; --at) axes[at] = axes[at - 1];
    axes[at] = added;
  }
  Rows rows;
  rows.bytes = element;
  uint32_t next = 0;
  for (; next < count && axes[next].first == rows.bytes; ++next) rows.bytes *= axes[next].second;
  rows.pitch = next < count ? axes[next].first : rows.bytes;
  if (rows.pitch < rows.bytes) return false;
  for (; next < count; ++next) {
    if (axes[next].first != rows.pitch * rows.count) return false;
    rows.count *= axes[next].second;
  }
  *out_rows = rows;
  return rows.count <= kMostRows;
}

// Everything from the first element to the last, as one row.
Rows whole(const keel_tensor& tensor) {
  return {1, kit::span_bytes(tensor), 0};
}

// Copies of a call's tensors in the CPU device's memory. The pool keeps freed memory until the work
// enqueued earlier is done, so the destructor may free the copies once all work is enqueued.
class StagedTensors {
 public:
  explicit StagedTensors(Device& cpu) : cpu_(cpu) {}
  ~StagedTensors() {
    for (const Copy& copy : copies_) cpu_.memory().free(copy.staged).ok();
  }
  StagedTensors(const StagedTensors&) = delete;
  StagedTensors& operator=(const StagedTensors&) = delete;

  // Points |tensor| at a copy of its memory; in-place tensors share a copy. |reads|: the current
  // content is copied in. |writes|: the result is copied back.
  Status stage(keel_tensor* tensor, bool reads, bool writes) {
    const uint64_t bytes = kit::span_bytes(*tensor);
    if (bytes == 0) {
      tensor->data = nullptr;
      tensor->byte_offset = 0;
      return {};
    }
    void* const original = kit::first_element(*tensor);
    Rows rows;
    if (!rows_of(*tensor, &rows)) {
      rows = whole(*tensor);
      reads = true;  // the gaps are written back unchanged
    }
    Copy* copy = nullptr;
    for (Copy& each : copies_) {
      if (each.original == original && each.bytes == bytes) copy = &each;
    }
    if (copy == nullptr) {
      void* staged = nullptr;
      KEEL_RETURN_IF_ERROR(cpu_.memory().alloc(KEEL_MEMORY_DEVICE, bytes, &staged));
      copies_.push_back({original, staged, bytes, rows, false, false});
      copy = &copies_.back();
    }
    // Two layouts of the same bytes: copy the whole range.
    if (copy->rows != rows) copy->rows = whole(*tensor);
    copy->reads |= reads || copy->rows != rows;
    copy->writes |= writes;
    tensor->data = copy->staged;
    tensor->byte_offset = 0;
    return {};
  }

  // Copies only the elements of tensors with rows: another stream may write the gaps meanwhile.
  Status copy_in(const Ref<Stream>& stream) {
    for (const Copy& copy : copies_) {
      if (!copy.reads) continue;
      KEEL_RETURN_IF_ERROR(copy_rows(stream, on_cpu(copy), on_device(*stream, copy), copy.rows));
    }
    return {};
  }

  Status copy_back(const Ref<Stream>& stream) {
    for (const Copy& copy : copies_) {
      if (!copy.writes) continue;
      KEEL_RETURN_IF_ERROR(copy_rows(stream, on_device(*stream, copy), on_cpu(copy), copy.rows));
    }
    return {};
  }

 private:
  struct Copy {
    void* original;
    void* staged;
    uint64_t bytes;
    Rows rows;
    bool reads;
    bool writes;
  };

  static Status copy_rows(const Ref<Stream>& stream, Endpoint to, Endpoint from, const Rows& rows) {
    for (uint64_t row = 0; row < rows.count; ++row) {
      KEEL_RETURN_IF_ERROR(enqueue_copy(stream, to, from, rows.bytes));
      to.pointer = static_cast<char*>(to.pointer) + rows.pitch;
      from.pointer = static_cast<char*>(from.pointer) + rows.pitch;
    }
    return {};
  }

  Endpoint on_cpu(const Copy& copy) const { return {&cpu_, copy.staged}; }
  static Endpoint on_device(const Stream& stream, const Copy& copy) {
    return {&stream.device(), copy.original};
  }

  Device& cpu_;
  std::vector<Copy> copies_;
};

}  // namespace

Status run_fallback(const Ref<Stream>& stream, const Candidate& fallback,
                    const keel_op_call& call) {
  StagedTensors staged(*fallback.device);
  OwnedCall moved(call);
  const Schema& schema = *find_schema(call.op);
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (moved.input(i) == nullptr) continue;
    KEEL_RETURN_IF_ERROR(staged.stage(moved.input(i), /*reads=*/true, /*writes=*/false));
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    const bool reads = *schema.outputs[o].reads != '\0';
    KEEL_RETURN_IF_ERROR(staged.stage(moved.output(o), reads, /*writes=*/true));
  }
  Ref<Stream> cpu;
  KEEL_RETURN_IF_ERROR(stream->helper_stream(*fallback.device, &cpu));
  KEEL_RETURN_IF_ERROR(staged.copy_in(stream));
  Ref<EventRecord> copied;
  KEEL_RETURN_IF_ERROR(stream->fence(&copied));
  KEEL_RETURN_IF_ERROR(cpu->wait(copied));
  KEEL_RETURN_IF_ERROR(submit_kernel(*cpu, fallback, moved.call()));
  Ref<EventRecord> computed;
  KEEL_RETURN_IF_ERROR(cpu->record(0, &computed));
  KEEL_RETURN_IF_ERROR(stream->wait(computed));
  return staged.copy_back(stream);
}

}  // namespace keel::ops
