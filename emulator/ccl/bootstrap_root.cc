// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/bootstrap_root.h"

#include <atomic>
#include <exception>
#include <keel/thread_start.hpp>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "emulator/ccl/clique.h"
#include "emulator/ccl/link.h"
#include "emulator/ccl/local_rank.h"

namespace keel::emulator::ccl {
namespace {

// The connection of a remote rank; this process represents the rank in the clique.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  explicit Visit(FileDescriptor socket) : link_(std::make_shared<Link>(std::move(socket))) {}

  // Serves the connection until the other end closes.
  void run() {
    try {
      serve();
    } catch (const std::exception&) {  // no memory for a message: disconnect
    }
    leave();
  }

 private:
  void serve() {
    Message message;
    if (!link_->receive(&message) || message.frame.kind != MessageKind::kHello) return;
    id_ = message.frame.id;
    if (!enter(message.frame)) return;
    while (link_->receive(&message)) take(std::move(message));
  }

  // A rank that leaves before all have joined gives up joining; a rank that leaves later aborts.
  void leave() {
    link_->close();
    if (endpoint_ == nullptr) return;
    Clique::give_up(id_);
    endpoint_->abort();
    endpoint_ = nullptr;  // breaks the cycle: the clique refers to this object
  }

  bool enter(const Frame& hello) {
    const RemotePeer remote_peer = {[self = shared_from_this()](const Status& status) {
                                      if (status.ok()) self->has_met_.store(true);
                                      self->link_->send(Frame{.kind = MessageKind::kWelcome},
                                                        status);
                                    },
                                    [link = link_](const Status& status) {
                                      link->send(Frame{.kind = MessageKind::kFailure}, status);
                                    }};
    std::shared_ptr<Clique> clique;
    const Status status = Clique::admit(hello.id, hello.rank, hello.world, remote_peer, &clique);
    if (!status.ok()) {
      link_->send(Frame{.kind = MessageKind::kWelcome}, status);
      Message rest;
      while (link_->receive(&rest)) {  // the peer closes after the refusal
      }
      return false;
    }
    endpoint_ = std::make_shared<LocalRank>(std::move(clique), hello.rank);
    return true;
  }

  void take(Message message) {
    const uint64_t number = message.frame.number;
    if (!has_met_.load()) return;
    if (message.frame.kind == MessageKind::kCall) {
      const Call& call = message.frame.call;
      if (is_possible(call, endpoint_->world())) under_way_[number] = endpoint_->next(call);
      return;
    }
    const auto found = under_way_.find(number);
    if (message.frame.kind != MessageKind::kArrival || found == under_way_.end()) return;
    const Membership self = std::move(found->second);
    under_way_.erase(found);
    Operation::Part& part = self.part();
    part.trouble = message.status();
    if (part.trouble.ok()) part.sent = std::move(message.payload);
    part.met->notify([endpoint = endpoint_, link = link_, self, number](const Status&) {
      if (endpoint->is_aborted()) return;
      const Status done = endpoint->compute(self);
      const Frame frame = {.kind = MessageKind::kResult, .number = number};
      if (!done.ok()) {
        link->send(frame, done);
        return;
      }
      link->send(frame, std::move(self.part().result));
      endpoint->finish_reading(self);
    });
    endpoint_->arrive(self);
  }

  const std::shared_ptr<Link> link_;
  UniqueId id_ = {};
  std::shared_ptr<LocalRank> endpoint_;
  std::atomic<bool> has_met_{false};
  std::map<uint64_t, Membership> under_way_;  // called, not arrived
};

// Accepts connections, each on its own detached thread, until the process ends.
void admit_all(const FileDescriptor& listening) {
  while (true) {
    FileDescriptor socket = Link::accept_from(listening.get());
    if (!socket) continue;
    try {
      auto visit = std::make_shared<Visit>(std::move(socket));
      kit::start_thread<std::thread>("keel-emu-visit", [visit = std::move(visit)] {
        visit->run();
      }).detach();
    } catch (const std::exception&) {  // no thread, or no memory: the peer is disconnected
    }
  }
}

}  // namespace

Status open_bootstrap_root() {
  static const bool is_open = [] {
    FileDescriptor listening = Link::listen_at(own_root_address());
    if (!listening) return false;
    kit::start_thread<std::thread>("keel-emu-root", [listening = std::move(listening)] {
      admit_all(listening);
    }).detach();
    return true;
  }();
  return is_open ? Status() : Status(Code::kUnavailable, "no other process can be let in");
}

}  // namespace keel::emulator::ccl
