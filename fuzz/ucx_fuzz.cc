// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a rank receives through UCX: headers, the order and the ends of messages, and what
// comes over the connection beside the endpoint meanwhile. A stand-in takes the place of UCX: it
// ends sends and receives when, and as, the fuzzer says, and checks that the rank gives back each
// message that it kept, once.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ipc/socket.h"
#include "collectives/transports/ucx/ucx_peer.h"
#include "fuzz/bytes.h"
#include "fuzz/silent_peer.h"

namespace {

using keel::UcxHeader;
using keel::fuzz::Bytes;
using keel::fuzz::require;

// ---- in place of UCX ------------------------------------------------------------

struct Pending {
  keel::ucx::RequestParam param;
  const void* kept = nullptr;  // the message of a receive
  char* to = nullptr;
  bool receives = false;
  bool is_done = false;
};

struct StandIn {
  Bytes* bytes = nullptr;
  std::vector<std::unique_ptr<Pending>> pending;
  std::vector<std::unique_ptr<std::string>> kept;  // messages that the rank has kept

  // Returns nothing (done), a failure, or a request that ends later.
  keel::ucx::Pending start(const Pending& wanted) {
    if (bytes->one_in(8)) return reinterpret_cast<keel::ucx::Pending>(intptr_t{-80});
    if (bytes->one_in(3)) {
      if (wanted.receives) deliver(wanted);
      return nullptr;
    }
    pending.push_back(std::make_unique<Pending>(wanted));
    return pending.back().get();
  }
  void give_back(const void* data) {
    const auto found = std::find_if(kept.begin(), kept.end(),
                                    [&](const auto& each) { return each->data() == data; });
    if (found == kept.end()) __builtin_trap();
    kept.erase(found);
  }
  void deliver(const Pending& receive) {
    if (receive.to != nullptr) *receive.to = 1;
    give_back(receive.kept);
  }
  // Ends a request of the rank with |result|.
  void finish(size_t index, keel::ucx::Result result) {
    Pending& ended = *pending[index];
    ended.is_done = true;
    if (ended.receives) {
      if (result == keel::ucx::Result::kOk) {
        deliver(ended);
      } else {
        give_back(ended.kept);
      }
      ended.param.callback.receive(&ended, result, 0, ended.param.user_data);
    } else if ((ended.param.op_attr_mask & keel::ucx::RequestParam::kCallback) != 0) {
      ended.param.callback.send(&ended, result, ended.param.user_data);
    }
  }
  // Ends all, as the end of a worker does, which calls nobody back.
  void drop_all() {
    for (const auto& each : pending) {
      if (each->receives && !each->is_done) give_back(each->kept);
    }
    pending.clear();
  }
} stand_in;

keel::ucx::Functions make_functions() {
  using namespace keel::ucx;
  static std::array<char, 8> object;  // in place of all of UCX's objects
  Functions to = {};
  to.config_read = [](const char*, const char*, Config** out) {
    *out = reinterpret_cast<Config*>(object.data());
    return Result::kOk;
  };
  to.config_modify = [](Config*, const char*, const char*) { return Result::kOk; };
  to.config_release = [](Config*) {};
  to.init_version = [](unsigned, unsigned, const Params*, const Config*, Context** out) {
    *out = reinterpret_cast<Context*>(object.data());
    return Result::kOk;
  };
  to.cleanup = [](Context*) {};
  to.worker_create = [](Context*, const WorkerParams*, Worker** out) {
    *out = reinterpret_cast<Worker*>(object.data());
    return Result::kOk;
  };
  to.worker_destroy = [](Worker*) { stand_in.drop_all(); };
  to.worker_get_address = [](Worker*, Address** out, size_t* size) {
    *out = reinterpret_cast<Address*>(object.data());
    *size = object.size();
    return Result::kOk;
  };
  to.worker_release_address = [](Worker*, Address*) {};
  to.worker_progress = [](Worker*) { return 0u; };
  to.worker_get_efd = [](Worker*, int* out) {
    *out = -1;
    return Result::kOk;
  };
  to.worker_arm = [](Worker*) { return Result::kOk; };
  to.worker_signal = [](Worker*) { return Result::kOk; };
  to.worker_set_am_recv_handler = [](Worker*, const HandlerParam*) { return Result::kOk; };
  to.ep_create = [](Worker*, const EndpointParams*, Endpoint** out) {
    *out = reinterpret_cast<Endpoint*>(object.data());
    return stand_in.bytes->one_in(8) ? Result::kNoMemory : Result::kOk;
  };
  to.ep_close_nbx = [](Endpoint*, const RequestParam* param) -> keel::ucx::Pending {
    return stand_in.start({.param = *param});
  };
  to.ep_flush_nbx = to.ep_close_nbx;
  to.am_send_nbx = [](Endpoint*, unsigned, const void*, size_t, const void*, size_t,
                      const RequestParam* param) { return stand_in.start({.param = *param}); };
  to.am_recv_data_nbx = [](Worker*, void* data, void* buffer, size_t count,
                           const RequestParam* param) {
    const bool is_single = param->datatype == kBytes && count != 0;
    const keel::ucx::Pending pending =
        stand_in.start({.param = *param,
                        .kept = data,
                        .to = is_single ? static_cast<char*>(buffer) : nullptr,
                        .receives = true});
    if (is_error(pending)) stand_in.give_back(data);
    return pending;
  };
  to.am_data_release = [](Worker*, void* data) { stand_in.give_back(data); };
  to.request_check_status = [](void* request) {
    return static_cast<::Pending*>(request)->is_done ? Result::kOk : Result::kInProgress;
  };
  to.request_free = [](void* request) {
    std::erase_if(stand_in.pending, [&](const auto& each) { return each.get() == request; });
  };
  to.status_string = [](Result) { return "a result"; };
  return to;
}

// ---- the rank -------------------------------------------------------------------

class Rank {
 public:
  explicit Rank(Bytes& bytes) : bytes_(bytes) {
    static const keel::UcxLibrary library(make_functions());
    stand_in.bytes = &bytes;
    shared_.rank = bytes.below(2);
    shared_.epoch = 3;
    const auto on_message = [](void*, const void*, size_t, void*, size_t,
                               const keel::ucx::ReceiveParam*) { return keel::ucx::Result::kOk; };
    require(shared_.worker.open(library, /*is_loopback=*/true, 2, on_message, nullptr), "open");
    peer_ = std::make_unique<keel::UcxPeer>(1 - shared_.rank, shared_);
    keel::FileDescriptor own;
    if (keel::sockets::open_pair(SOCK_STREAM | SOCK_NONBLOCK, &own, &other_) != 0) std::abort();
    require(peer_->attach(std::move(own)), "attach");
    read_key();
    if (!bytes.one_in(8)) greet();
  }

  void run() {
    for (uint32_t i = 0; i < 40 && !bytes_.empty(); ++i) {
      act();
      if (const keel::Status moved = peer_->move(); !moved.ok()) {
        if (*moved.text() == '\0') __builtin_trap();
        break;
      }
    }
    finish();
  }

 private:
  // The key that the rank wants to see in each header.
  void read_key() {
    keel::UcxControl control;
    control.attach(keel::FileDescriptor(dup(other_.get())));
    require(control.move(), "greeting");
    if (!control.greeting) std::abort();
    key_ = control.greeting->key;
  }
  void say(const keel::Bytes& message) {
    if (write(other_.get(), message.data(), message.size()) < 0) return;
  }
  void greet() {
    say(keel::write_ucx_greeting({{}, {1, 2, 3}}));
    say(keel::write_ucx_connected());
    peer_->move_control();
    UcxHeader hello = header();
    hello.lane = UcxHeader::kHello;
    give(hello, /*is_rendezvous=*/false, 0);
  }

  void act() {
    switch (bytes_.below(8)) {
      case 0:
      case 1:
        post(/*is_send=*/false);
        return;
      case 2:
        post(/*is_send=*/true);
        return;
      case 3:
        if (stand_in.pending.empty()) return;
        end_request(bytes_.below(static_cast<uint32_t>(stand_in.pending.size())));
        return;
      case 4:
        meddle();
        return;
      default:
        send_message();
    }
  }
  void post(bool is_send) {
    if (used_ == requests_.size()) return;
    const size_t number = used_++;
    const uint64_t bytes = bytes_.one_in(8) ? memory_[number].size() : bytes_.below(40);
    requests_[number].set_memory(memory_[number].data(), bytes);
    const uint32_t lane = bytes_.below(keel::WireSet::kLanes);
    is_send ? peer_->post_send(lane, requests_[number])
            : peer_->post_receive(lane, requests_[number]);
  }
  void end_request(size_t index) {
    if (stand_in.pending[index]->is_done) return;
    stand_in.finish(index,
                    bytes_.one_in(6) ? keel::ucx::Result::kCanceled : keel::ucx::Result::kOk);
  }
  void meddle() {
    switch (bytes_.below(4)) {
      case 0: {
        keel::UcxFarewell farewell;
        for (uint64_t& sent : farewell.sent) sent = bytes_.below(4);
        say(keel::write_ucx_farewell(farewell));
        break;
      }
      case 1:
        other_ = keel::FileDescriptor();
        break;
      case 2:
        say(keel::write_ucx_probe());
        break;
      default: {
        const std::string text = bytes_.text(40);
        say({text.begin(), text.end()});
      }
    }
    peer_->move_control();
  }

  UcxHeader header() {
    UcxHeader header;
    header.key = key_;
    header.from = peer_->rank();
    header.epoch = shared_.epoch;
    return header;
  }
  void send_message() {
    UcxHeader drawn = header();
    drawn.lane = bytes_.below(keel::WireSet::kLanes);
    drawn.sequence = sequence_[drawn.lane]++;
    drawn.bytes = bytes_.below(40);
    if (bytes_.one_in(8)) drawn.sequence = bytes_.below(8);
    if (bytes_.one_in(16)) drawn.sequence = bytes_.word();
    if (bytes_.one_in(16)) drawn.lane = static_cast<uint32_t>(bytes_.word());
    if (bytes_.one_in(16)) drawn.epoch = bytes_.byte();
    if (bytes_.one_in(16)) drawn.key[bytes_.below(drawn.key.size())] ^= bytes_.byte();
    give(drawn, bytes_.one_in(3), drawn.bytes);
  }
  // UcxWires has compared |header.bytes| with the size of the data.
  void give(const UcxHeader& header, bool is_rendezvous, uint64_t size) {
    stand_in.kept.push_back(std::make_unique<std::string>(std::max<uint64_t>(size, 32), 'd'));
    void* const data = stand_in.kept.back()->data();
    if (peer_->take_message(header, data, is_rendezvous) != keel::ucx::Result::kInProgress) {
      stand_in.give_back(data);
    }
  }

  // As the end of the wires: every request ends, in order or by force.
  void finish() {
    const bool is_forced = bytes_.one_in(2);
    if (!is_forced) peer_->say_farewell();
    peer_->end(keel::Status(KEEL_ABORTED, "the input has ended"));
    peer_->close(is_forced);
    for (uint32_t i = bytes_.below(8); i != 0 && !stand_in.pending.empty(); --i) end_request(0);
    (void)peer_->is_closing();
    peer_->forget_closing();
    shared_.worker.close();
    for (const auto& each : shared_.operations.all()) {
      if (each->is_in_flight) each->peer->abandon(*each);
    }
    for (size_t i = 0; i < used_; ++i) {
      if (!requests_[i].is_done()) __builtin_trap();
    }
    if (!stand_in.kept.empty() || peer_->is_touched() || !peer_->is_idle()) __builtin_trap();
  }

  Bytes& bytes_;
  keel::UcxShared shared_;
  std::unique_ptr<keel::UcxPeer> peer_;
  keel::FileDescriptor other_;
  keel::UcxKey key_ = {};
  std::array<uint64_t, keel::WireSet::kLanes> sequence_ = {};
  std::array<std::array<char, 10000>, 16> memory_ = {};
  std::array<keel::WireRequest, 16> requests_;
  size_t used_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes({data, size});
  std::make_unique<Rank>(bytes)->run();
  return 0;
}
