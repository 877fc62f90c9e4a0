// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/hub.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <keel/thread_start.hpp>
#include <map>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "emulator/ccl/clique.h"
#include "emulator/ccl/clique_seat.h"
#include "emulator/ccl/link.h"

namespace keel::emulator::ccl {
namespace {

// The connection of a remote rank; this process represents the rank in the clique.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  explicit Visit(int socket) : link_(std::make_shared<Link>(socket)) {}

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
    if (seat_ == nullptr) return;
    Clique::give_up(id_);
    seat_->abort();
    seat_ = nullptr;  // breaks the cycle: the clique refers to this object
  }

  bool enter(const Frame& hello) {
    const Guest guest = {[self = shared_from_this()](const Status& status) {
                           if (status.ok()) self->has_met_.store(true);
                           self->link_->send(Frame{.kind = MessageKind::kWelcome}, status);
                         },
                         [link = link_](const Status& status) {
                           link->send(Frame{.kind = MessageKind::kFailure}, status);
                         }};
    std::shared_ptr<Clique> clique;
    const Status status = Clique::admit(hello.id, hello.rank, hello.world, guest, &clique);
    if (!status.ok()) {
      link_->send(Frame{.kind = MessageKind::kWelcome}, status);
      Message rest;
      while (link_->receive(&rest)) {  // the peer closes after the refusal
      }
      return false;
    }
    seat_ = std::make_shared<CliqueSeat>(std::move(clique), hello.rank);
    return true;
  }

  void take(Message message) {
    const uint64_t number = message.frame.number;
    if (!has_met_.load()) return;
    if (message.frame.kind == MessageKind::kCall) {
      const Call& call = message.frame.call;
      if (is_possible(call, seat_->world())) under_way_[number] = seat_->next(call);
      return;
    }
    const auto found = under_way_.find(number);
    if (message.frame.kind != MessageKind::kArrival || found == under_way_.end()) return;
    const Membership self = std::move(found->second);
    under_way_.erase(found);
    Operation::Part& part = self.part();
    part.trouble = message.status();
    if (part.trouble.ok()) part.sent = std::move(message.payload);
    part.met->notify([seat = seat_, link = link_, self, number](const Status&) {
      if (seat->is_aborted()) return;
      const Status done = seat->compute(self);
      const Frame frame = {.kind = MessageKind::kResult, .number = number};
      if (!done.ok()) {
        link->send(frame, done);
        return;
      }
      link->send(frame, std::move(self.part().result));
      seat->finish_reading(self);
    });
    seat_->arrive(self);
  }

  const std::shared_ptr<Link> link_;
  UniqueId id_ = {};
  std::shared_ptr<CliqueSeat> seat_;
  std::atomic<bool> has_met_{false};
  std::map<uint64_t, Membership> under_way_;  // called, not arrived
};

// Accepts connections, each on its own detached thread, until the process ends.
void admit_all(int listening) {
  while (true) {
    const int socket = Link::accept_from(listening);
    if (socket < 0) continue;
    try {
      kit::start_thread<std::thread>("keel-emu-visit", [visit = std::make_shared<Visit>(socket)] {
        visit->run();
      }).detach();
    } catch (const std::exception&) {  // no thread, or no memory: the peer is disconnected
    }
  }
}

}  // namespace

Status open_hub() {
  static const bool is_open = [] {
    const int listening = Link::listen_at(own_door());
    if (listening < 0) return false;
    try {
      kit::start_thread<std::thread>("keel-emu-hub", [listening] {
        admit_all(listening);
      }).detach();
    } catch (const std::bad_alloc&) {
      close(listening);  // the next try listens again
      throw;
    }
    return true;
  }();
  return is_open ? Status() : Status(Code::kUnavailable, "no other process can be let in");
}

}  // namespace keel::emulator::ccl
