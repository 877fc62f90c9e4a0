// run_fallback: an operator on a CPU device, for a device that has no kernel for it.
#include <keel/plugin_kit.hpp>
#include <vector>

#include "core/copy.h"
#include "ops/dispatch.h"
#include "ops/owned_call.h"
#include "ops/schema.h"

namespace keel::ops {
namespace {

// Copies of a call's tensors in the CPU device's memory. The pool keeps freed memory
// until the work enqueued before is done, so these may go once all is enqueued.
class StagedTensors {
 public:
  explicit StagedTensors(Device& cpu) : cpu_(cpu) {}
  ~StagedTensors() {
    for (const Copy& copy : copies_) cpu_.memory().free(copy.staged).ok();
  }
  StagedTensors(const StagedTensors&) = delete;
  StagedTensors& operator=(const StagedTensors&) = delete;

  // Points |tensor| at a copy of its memory, the same one for tensors in place. |reads|:
  // the copy needs what is there now; |writes|: and goes back.
  Status stage(keel_tensor* tensor, bool reads, bool writes) {
    const uint64_t bytes = kit::span_bytes(*tensor);
    if (bytes == 0) {
      tensor->data = nullptr;
      tensor->byte_offset = 0;
      return {};
    }
    void* const original = kit::first_element(*tensor);
    Copy* copy = nullptr;
    for (Copy& each : copies_) {
      if (each.original == original && each.bytes == bytes) copy = &each;
    }
    if (copy == nullptr) {
      void* staged = nullptr;
      KEEL_RETURN_IF_ERROR(cpu_.memory().alloc(KEEL_MEMORY_DEVICE, bytes, &staged));
      copies_.push_back({original, staged, bytes, false, false});
      copy = &copies_.back();
    }
    copy->reads |= reads;
    copy->writes |= writes;
    tensor->data = copy->staged;
    tensor->byte_offset = 0;
    return {};
  }

  Status copy_in(const Ref<Stream>& stream) {
    for (const Copy& copy : copies_) {
      if (!copy.reads) continue;
      KEEL_RETURN_IF_ERROR(
          enqueue_copy(stream, on_cpu(copy), on_device(*stream, copy), copy.bytes));
    }
    return {};
  }

  Status copy_back(const Ref<Stream>& stream) {
    for (const Copy& copy : copies_) {
      if (!copy.writes) continue;
      KEEL_RETURN_IF_ERROR(
          enqueue_copy(stream, on_device(*stream, copy), on_cpu(copy), copy.bytes));
    }
    return {};
  }

 private:
  struct Copy {
    void* original;
    void* staged;
    uint64_t bytes;
    bool reads;
    bool writes;
  };

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
    // The gaps of a strided output go back as they came.
    const bool reads = !kit::is_contiguous(*call.outputs[o]) || *schema.outputs[o].reads != '\0';
    KEEL_RETURN_IF_ERROR(staged.stage(moved.output(o), reads, /*writes=*/true));
  }
  Ref<Stream> cpu;
  KEEL_RETURN_IF_ERROR(stream->leg(*fallback.device, &cpu));
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
