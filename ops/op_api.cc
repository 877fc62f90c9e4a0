// SPDX-License-Identifier: Apache-2.0
// The C API of operators.
#include <keel/plugin_kit.hpp>

#include "core/api.h"
#include "core/profiler.h"
#include "ops/call_cache.h"
#include "ops/dispatch.h"
#include "ops/kernel_registry.h"
#include "ops/schema.h"
#include "ops/selection.h"

using keel::api_call;
using keel::api_call_outside;
using keel::check_struct;
using keel::Device;
using keel::failure;
using keel::find_device;
using keel::find_stream;
using keel::Ref;
using keel::return_text;
using keel::Status;
using keel::Stream;
using keel::ops::Candidate;
using keel::ops::explain_selection;
using keel::ops::FallbackPolicy;
using keel::ops::KernelRegistry;
using keel::ops::OpCallCache;
using keel::ops::run_op;

namespace {

// Checks a call that is only queried: its tensors may have no memory yet.
Status check_layout(const keel_op_call* call) {
  KEEL_REQUIRE(call)
  keel::ops::CheckError error;
  const keel_status code = check_call(*call, keel::ops::Check::kLayout, &error);
  return code == KEEL_OK ? Status() : Status(code, error.text);
}

// The slow path of keel_op_run, for any call.
keel_status run_slow_path(keel_stream stream, const keel_op_call* call) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(call)
    keel::EpochSection section;
    Stream* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    Device& device = found->device();
    const bool profiled = keel::observers::active(keel::ObserverSlot::kProfiler);
    const keel::ops::Schema* schema = profiled ? keel::ops::find_schema(call->op) : nullptr;
    keel::EnqueueCall enqueue(schema == nullptr ? "unknown operator" : schema->name, device,
                              stream);
    const uint64_t generation = OpCallCache::generation();
    Candidate best;
    Status status = choose_kernel(device, *call, &best);
    if (!status.ok()) return enqueue.end(std::move(status));
    if (is_ready(best)) {
      // A custom kernel that declined the call may accept it the next time.
      if (KernelRegistry::get().first(call->op) == nullptr) {
        OpCallCache::remember(generation, device, *call);
      }
      return enqueue.end(submit_kernel(*found, best, *call));
    }
    const Ref<Stream> kept(found);  // what follows may block or run caller code
    section.leave();
    return enqueue.end(run_op(kept, stream, *call, best));
  });
}

}  // namespace

keel_status keel_op_run(keel_stream stream, const keel_op_call* call) {
  // Fast path: this thread has made the same call before.
  const auto usual = [&](const keel::epoch::EpochRecord& thread, keel_status* out_status) {
    Stream* found = keel::Runtime::opened().stream_handles().peek(stream.id);
    if (found == nullptr || call == nullptr) return false;
    Device& device = found->device();
    if (!OpCallCache::contain(thread, device, *call)) return false;
    const auto run = [&](keel_plugin_stream* native) {
      return device.op_table()->run(native, call, /*workspace=*/nullptr);
    };
    if (!found->try_submit_fast_path(run, out_status)) return false;
    if (*out_status != KEEL_OK) [[unlikely]] {
      *out_status = keel::report_answer(device, *out_status, "op.run");
    }
    return true;
  };
  return keel::api_fast_path_call(usual, [&] { return run_slow_path(stream, call); });
}

keel_status keel_op_plan_get(keel_device device, const keel_op_call* call, keel_op_plan* out_plan) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(
        check_struct(out_plan, KEEL_STRUCT_OP_PLAN, sizeof(keel_op_plan), "out_plan"));
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    KEEL_RETURN_IF_ERROR(check_layout(call));
    const bool forbidden = FallbackPolicy::get().forbidden();
    Candidate chosen;
    KEEL_RETURN_IF_ERROR(select_kernel(*found, *call, &chosen));
    const bool own = chosen.level != KEEL_OP_NONE;
    if (!own && !forbidden) KEEL_RETURN_IF_ERROR(select_fallback(*found, *call, &chosen));
    uint32_t candidates = 0;
    const std::string text = explain_selection(*found, *call, forbidden, &candidates);
    if (chosen.level == KEEL_OP_NONE) {
      return failure(KEEL_UNSUPPORTED, "nothing can run {}", text);
    }
    out_plan->level = chosen.level;
    out_plan->score = chosen.score;
    out_plan->workspace_bytes = chosen.workspace_bytes;
    out_plan->fallback = own ? 0 : 1;
    out_plan->candidates = candidates;
    keel::kit::copy_text(out_plan->kernel, chosen.kernel);
    return {};
  });
}

keel_status keel_op_explain(keel_device device, const keel_op_call* call, char* out_text,
                            uint64_t* in_out_size) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(in_out_size)
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    KEEL_RETURN_IF_ERROR(check_layout(call));
    uint32_t candidates = 0;
    return return_text(
        explain_selection(*found, *call, FallbackPolicy::get().forbidden(), &candidates), out_text,
        in_out_size);
  });
}

keel_status keel_op_find(const char* name, keel_op_id* out_op) {
  return api_call_outside([&]() -> Status {
    KEEL_REQUIRE(name)
    KEEL_REQUIRE(out_op)
    const keel::ops::Schema* schema = keel::ops::find_schema(std::string_view(name));
    if (schema == nullptr) return failure(KEEL_NOT_FOUND, "no operator is called \"{}\"", name);
    *out_op = schema->op;
    return {};
  });
}

const char* keel_op_name(keel_op_id op) {
  const keel::ops::Schema* schema = keel::ops::find_schema(op);
  return schema == nullptr ? nullptr : schema->name;
}

keel_status keel_op_register(const keel_custom_kernel* kernel) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(
        check_struct(kernel, KEEL_STRUCT_CUSTOM_KERNEL, sizeof(keel_custom_kernel), "kernel"));
    KEEL_REQUIRE(kernel->backend)
    KEEL_REQUIRE(kernel->name)
    KEEL_REQUIRE(kernel->accepts)
    KEEL_REQUIRE(kernel->run)
    return KernelRegistry::get().add(*kernel);
  });
}

keel_status keel_op_fallback_count(uint64_t* out_count) {
  return api_call_outside([&]() -> Status {
    KEEL_REQUIRE(out_count)
    *out_count = FallbackPolicy::get().count();
    return {};
  });
}

keel_status keel_op_forbid_fallback(int forbid) {
  return api_call_outside([&]() -> Status {
    FallbackPolicy::get().set_forbidden(forbid != 0);
    return {};
  });
}
