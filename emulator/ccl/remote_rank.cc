// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/remote_rank.h"

#include <exception>
#include <keel/thread_start.hpp>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "emulator/memory.h"

namespace keel::emulator::ccl {
namespace {

// The ranks waiting to join, by id.
struct Waiting {
  std::mutex mutex;
  std::multimap<UniqueId, RemoteRank*> endpoints;
  std::set<UniqueId> given_up;  // later joins by these ids fail at once
};

Waiting& waiting() {
  static Waiting& created = *new Waiting;
  return created;
}

void complete(const Membership& self) {
  const Operation::Part& part = self.part();
  const Time now = Clock::now();
  part.met->complete_and_notify({}, now);
  part.read->complete_and_notify({}, now);
}

}  // namespace

Status RemoteRank::create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                          uint32_t world, Time deadline,
                          std::shared_ptr<RankEndpoint>* out_endpoint) {
  FileDescriptor socket = Link::connect_to(address_of_root(id));
  if (!socket) {
    return {Code::kInvalidArgument,
            "the unique id is none of this process, and the one that made it lets nobody in"};
  }
  const std::shared_ptr<RemoteRank> endpoint(
      new RemoteRank(std::move(socket), std::move(device), rank, world));
  std::multimap<UniqueId, RemoteRank*>::iterator entry;
  {
    const std::lock_guard lock(waiting().mutex);
    if (waiting().given_up.contains(id)) {
      return {Code::kUnavailable, "this rank has given up before it came"};
    }
    entry = waiting().endpoints.emplace(id, endpoint.get());
  }
  endpoint->link_.send(Frame{.kind = MessageKind::kHello, .rank = rank, .world = world, .id = id});
  Status status;
  try {
    endpoint->listener_ = kit::start_thread<std::thread>("keel-emu-endpoint",
                                                         [raw = endpoint.get()] { raw->listen(); });
    status = endpoint->await_welcome(deadline);
  } catch (const std::bad_alloc& error) {
    status = {Code::kOutOfMemory, error.what()};
  }
  {
    const std::lock_guard lock(waiting().mutex);
    waiting().endpoints.erase(entry);
  }
  if (status.ok()) *out_endpoint = endpoint;
  return status;
}

void RemoteRank::give_up(const UniqueId& id) {
  const std::lock_guard lock(waiting().mutex);
  waiting().given_up.insert(id);
  const auto [first, last] = waiting().endpoints.equal_range(id);
  for (auto each = first; each != last; ++each) each->second->link_.close();
}

RemoteRank::~RemoteRank() {
  link_.close();
  if (listener_.joinable()) listener_.join();
}

Status RemoteRank::await_welcome(Time deadline) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return is_welcome_; };
  if (deadline == Time::max()) {
    changed_.wait(lock, is_over);
  } else if (!changed_.wait_until(lock, deadline, is_over)) {
    return {Code::kTimedOut, "the other ranks did not come in time"};
  }
  return welcome_;
}

void RemoteRank::listen() {
  try {
    Message message;
    while (link_.receive(&message)) take(std::move(message));
  } catch (const std::exception&) {  // no memory for a message
    link_.close();
  }
  const std::lock_guard lock(mutex_);
  if (!is_welcome_) welcome_ = {Code::kUnavailable, "a rank has given up waiting"};
  is_welcome_ = true;
  if (error_.ok() && !is_aborted_) {
    error_ = {Code::kUnavailable, "the process in which the ranks have met is gone"};
  }
  changed_.notify_all();
}

void RemoteRank::take(Message message) {
  std::unique_lock lock(mutex_);
  switch (message.frame.kind) {
    case MessageKind::kWelcome:
      welcome_ = message.status();
      is_welcome_ = true;
      changed_.notify_all();
      return;
    case MessageKind::kFailure:
      if (error_.ok()) error_ = message.status();
      return;
    case MessageKind::kResult:
      break;
    default:
      return;
  }
  const auto found = under_way_.find(message.frame.number);
  if (found == under_way_.end()) return;
  const Membership self = std::move(found->second);
  under_way_.erase(found);
  Operation::Part& part = self.part();
  part.trouble = message.status();
  if (part.trouble.ok() && message.payload.size() != result_bytes(part.call, rank_, world_)) {
    part.trouble = {Code::kFailed, "what came is no result"};
  }
  if (part.trouble.ok()) part.result = std::move(message.payload);
  lock.unlock();
  complete(self);
}

Membership RemoteRank::next(const Call& call) {
  Membership self = {std::make_shared<Operation>(1)};
  self.part().call = call;
  std::unique_lock lock(mutex_);
  if (is_aborted_) {
    // No later abort would complete it.
    lock.unlock();
    complete(self);
    self.part().hung->complete_and_notify({}, Clock::now());
    return self;
  }
  self.number = called_++;
  under_way_.emplace(self.number, self);
  link_.send(Frame{.kind = MessageKind::kCall, .number = self.number, .call = call});
  return self;
}

void RemoteRank::arrive(const Membership& self) {
  const Call& call = self.part().call;
  const uint64_t bytes = sent_bytes(call, rank_, world_);
  Access access(device_->memory());
  std::byte* data = nullptr;
  Status status;
  if (bytes != 0) status = access.reach(call.send, bytes, &data);
  const Frame frame = {.kind = MessageKind::kArrival, .number = self.number};
  if (status.ok()) {
    link_.send(frame, std::vector<std::byte>(data, data + bytes));
  } else {
    link_.send(frame, status);
  }
}

Status RemoteRank::compute(const Membership& self) {
  const std::lock_guard lock(mutex_);
  return self.part().trouble;
}

// The closed connection notifies the other process.
void RemoteRank::abort() {
  std::map<uint64_t, Membership> ended;
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) return;
    is_aborted_ = true;
    ended.swap(under_way_);
  }
  link_.close();
  for (const auto& [number, self] : ended) {
    complete(self);
    self.part().hung->complete_and_notify({}, Clock::now());
  }
}

bool RemoteRank::is_aborted() const {
  const std::lock_guard lock(mutex_);
  return is_aborted_;
}

void RemoteRank::report(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (error_.ok()) error_ = status;
}

Status RemoteRank::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace keel::emulator::ccl
