// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/abort_record.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/transports/wait_policy.h"
#include "core/deadline.h"

namespace keel {

// Copies as much of the text as fits, NUL-terminated.
template <size_t kSize>
static void copy_text(const Status& status, char (&out)[kSize]) {
  const size_t size = std::min(std::strlen(status.text()), kSize - 1);
  std::memcpy(out, status.text(), size);
  out[size] = '\0';
}

void AbortRecord::abort(const Status& status) {
  uint32_t none = 0;
  if (shared_->state.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) {
    shared_->code = static_cast<int32_t>(status.code());
    copy_text(status, shared_->text);
    shared_->state.store(2, std::memory_order_seq_cst);
  }
  words_.wake_all();
}

void AbortRecord::abort_unmapped(const FileDescriptor& file, uint64_t offset,
                                 const Status& status) {
  const auto put = [&](const auto& value, size_t member) {
    return pwrite(file.get(), &value, sizeof(value), static_cast<off_t>(offset + member)) ==
           static_cast<ssize_t>(sizeof(value));
  };
  uint32_t state = 0;
  const auto at = static_cast<off_t>(offset + offsetof(Shared, state));
  if (pread(file.get(), &state, sizeof(state), at) != sizeof(state) || state != 0) return;
  // Two processes may write concurrently. Their texts may interleave, but the result is always
  // NUL-terminated.
  const auto code = static_cast<int32_t>(status.code());
  char text[sizeof(Shared::text)] = {};
  copy_text(status, text);
  state = 2;
  (void)(put(code, offsetof(Shared, code)) && put(text, offsetof(Shared, text)) &&
         put(state, offsetof(Shared, state)));
}

Status AbortRecord::status() const {
  uint32_t state = shared_->state.load(std::memory_order_acquire);
  if (state == 0) return {};
  // The writer of the text takes less than a microsecond, unless it was preempted or killed. Yields
  // in both modes of WaitPolicy, since a preempted writer may need this core.
  const Deadline deadline = Deadline::after(WaitPolicy::kSliceNs);
  while (state == 1 && !deadline.passed()) {
    sched_yield();
    state = shared_->state.load(std::memory_order_acquire);
  }
  if (state != 2) return failure(KEEL_ABORTED, "the communicator was aborted");
  char text[sizeof(shared_->text)];
  std::memcpy(text, shared_->text, sizeof(text));
  text[sizeof(text) - 1] = '\0';
  if (text[0] == '\0') return failure(KEEL_ABORTED, "the communicator was aborted");
  const auto code = static_cast<keel_status>(shared_->code);
  return {is_status(code) && code != KEEL_OK && code != KEEL_NOT_READY ? code : KEEL_ABORTED, text};
}

void AbortRecord::leave(uint32_t rank, Absence how) {
  // Several processes may see a rank die; only the first records the absence.
  Absence none = Absence::kNone;
  if (!ranks_[rank].absence.compare_exchange_strong(none, how, std::memory_order_seq_cst)) return;
  shared_->absent.fetch_add(1, std::memory_order_seq_cst);
  words_.wake_all();
}

Status AbortRecord::absence_status(uint32_t rank) const {
  const Absence how = absence(rank);
  if (how == Absence::kNone) return {};
  return absence_status(how, name_ ? name_(rank) : fmt::format("rank {}", rank));
}

Status AbortRecord::absence_status(Absence how, const std::string& name) {
  if (how == Absence::kLeft) return failure(KEEL_ABORTED, "{} left the communicator", name);
  return failure(KEEL_RANK_FAILED, "{} {}", name,
                 how == Absence::kDied ? "died" : "replaced its program (exec)");
}

Status AbortRecord::first_death() const {
  for (uint32_t rank = 0; any_absent() && rank < world_; ++rank) {
    if (absence(rank) > Absence::kLeft) return absence_status(rank);
  }
  return {};
}

}  // namespace keel
