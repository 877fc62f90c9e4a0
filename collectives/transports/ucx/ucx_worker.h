// SPDX-License-Identifier: Apache-2.0
// A UCX worker: where the endpoints of a rank's wires send and receive.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_WORKER_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_WORKER_H_

#include <cstdint>
#include <string>

#include "collectives/bootstrap/messages.h"
#include "collectives/transports/ucx/ucx_api.h"
#include "collectives/transports/ucx/ucx_library.h"
#include "core/status.h"

namespace keel {

// A context with one worker: only a UCX built for it shares a context between threads. For one
// thread at a time.
class UcxWorker {
 public:
  UcxWorker() = default;
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  ~UcxWorker() { close(); }

  // |library| must live as long as the worker. |is_loopback|: uses the loopback interface alone.
  // |on_message| gets each message, in progress().
  Status open(const UcxLibrary& library, bool is_loopback, size_t peers,
              ucx::MessageCallback on_message, void* argument);
  bool is_open() const { return worker_ != nullptr; }
  // Frees the worker with all endpoints: UCX touches no memory of a request any more.
  void close();

  const UcxLibrary& library() const { return *library_; }
  ByteView address() const;
  // Becomes readable once progress() may have something to do, after arm() has returned true.
  int descriptor() const { return descriptor_; }
  bool arm() { return library_->functions().worker_arm(worker_) == ucx::Result::kOk; }
  // Makes descriptor() readable.
  void signal() { library_->functions().worker_signal(worker_); }
  bool progress() { return library_->functions().worker_progress(worker_) != 0; }

  Status connect(ByteView address, ucx::ErrorCallback on_error, void* argument,
                 ucx::Endpoint** out_endpoint);
  // Closes |endpoint|. |is_forced|: its requests end first, canceled. Else what was sent is handed
  // to the network first. The result is NULL, or a request that the caller frees once done.
  ucx::Pending disconnect(ucx::Endpoint* endpoint, bool is_forced);
  bool is_pending(ucx::Pending pending) const;
  void free(ucx::Pending pending) const;
  ucx::Worker* get() const { return worker_; }

  // Number of the active message of wires.
  static constexpr unsigned kMessageId = 0x4b;
  static constexpr size_t kMostAddressBytes = 65536;

 private:
  const UcxLibrary* library_ = nullptr;
  ucx::Context* context_ = nullptr;
  ucx::Worker* worker_ = nullptr;
  ucx::Address* address_ = nullptr;
  size_t address_size_ = 0;
  int descriptor_ = -1;  // of the worker
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_WORKER_H_
