// SPDX-License-Identifier: Apache-2.0
#include "in_flight.h"

namespace keel_python {
namespace {

// Groups nest: the outermost one enqueues.
thread_local int depth = 0;
thread_local std::vector<std::pair<keel_stream, std::shared_ptr<void>>> of_group;

}  // namespace

InFlight& InFlight::get() {
  // Never destroyed: callbacks come until the process ends.
  static InFlight* const in_flight = new InFlight;
  return *in_flight;
}

void InFlight::hold(keel_stream stream, std::shared_ptr<void> owner) {
  if (is_in_group()) {
    of_group.emplace_back(stream, std::move(owner));
  } else {
    add(stream, std::move(owner));
    sweep();
  }
}

void InFlight::add(keel_stream stream, std::shared_ptr<void> owner) {
  using Shared = std::shared_ptr<std::atomic<int>>;
  const auto state = std::make_shared<std::atomic<int>>(kRunning);
  entries_.push_back({stream, std::move(owner), state, /*is_over=*/false});
  auto* const user = new Shared(state);
  const keel_done_fn mark = [](void* user, keel_status status) {
    const std::unique_ptr<Shared> state(static_cast<Shared*>(user));
    **state = status == KEEL_OK ? kDone : kFailed;
  };
  if (keel_stream_on_done(stream, mark, user) != KEEL_OK) {  // a failed stream, or none any more
    delete user;
    *state = kFailed;
  }
}

// An owner's destructor may run Python code, which may come back here: off the list first.
template <typename Condition>
void InFlight::drop(const Condition& condition) {
  std::list<Entry> dropped;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (condition(*entry)) dropped.splice(dropped.end(), entries_, entry);
    entry = next;
  }
}

void InFlight::sweep() {
  drop([](const Entry& entry) {
    return *entry.state == kDone || (*entry.state == kFailed && entry.is_over);
  });
}

void InFlight::release(keel_stream stream) {
  for (Entry& entry : entries_) {
    if (entry.stream.id == stream.id) entry.is_over = true;
  }
  sweep();
}

void InFlight::release_all() {
  drop([](const Entry&) { return true; });
}

void InFlight::begin_group() {
  ++depth;
}

void InFlight::end_group() {
  if (--depth > 0) return;
  for (auto& [stream, owner] : std::exchange(of_group, {})) add(stream, std::move(owner));
  sweep();
}

bool InFlight::is_in_group() const {
  return depth > 0;
}

}  // namespace keel_python
