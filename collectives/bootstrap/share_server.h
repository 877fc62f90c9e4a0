// SPDX-License-Identifier: Apache-2.0
// Memory that this process lets others of its user map.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SHARE_SERVER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SHARE_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "collectives/bootstrap/file_descriptor.h"
#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Hands out descriptors of what was published, from the service thread, to processes of the
// same user that ask by the id: fetch_object(); and holds connections for Lifelines. It listens at
// a name made of the token, from the first publish() or listen() until the process ends, or execs.
// One a process, never destroyed. Thread-safe.
class ShareServer {
 public:
  static ShareServer& get();
  ShareServer(const ShareServer&) = delete;
  ShareServer& operator=(const ShareServer&) = delete;

  // What others call this process.
  const ProcessToken& token() const { return token_; }

  // Others can connect once this has returned. KEEL_UNAVAILABLE when this process may open no more
  // files; KEEL_OUT_OF_MEMORY without a thread; KEEL_FORKED.
  Status listen();
  // |fd|: a memfd that is sealed against shrinking (F_SEAL_SHRINK), since whoever maps it
  // would otherwise die of SIGBUS when its owner cut it; KEEL_FAILED_PRECONDITION else. An
  // object published twice must be withdrawn twice. KEEL_FORKED.
  Status publish(FileDescriptor fd, ObjectId* out_id);
  // Closes the descriptor with the last withdrawal; those who have fetched the object keep
  // it. An id that is unknown is fine.
  void withdraw(const ObjectId& id);
  bool has(const ObjectId& id);
  // What this process published as |id|, without asking itself; a descriptor of the caller's own.
  // KEEL_NOT_FOUND; KEEL_UNAVAILABLE when it may open no more files.
  Status open(const ObjectId& id, FileDescriptor* out_fd);

 private:
  struct Object {
    FileDescriptor fd;
    uint64_t count = 0;
  };

  ShareServer();
  Status listen_locked();
  void on_peer(FileDescriptor socket, const Peer& peer);
  // The state of a connection after its question.
  enum class Next { kWait, kHold, kClose };
  Next on_request(int socket, const Peer& peer);
  Status answer(ByteView request, int socket, const Peer& peer);
  Status find_locked(const ObjectId& id, int* out_fd);

  ProcessToken token_;
  Status token_status_;
  std::mutex mutex_;
  bool is_listening_ = false;
  std::map<ObjectId, Object> objects_;
};

// What |owner| published as |id|; a descriptor of the caller's own. A process that is stopped
// never answers: |is_given_up| is asked every 20 ms, and KEEL_ABORTED then. KEEL_RANK_FAILED when
// the owner has ended; KEEL_UNAVAILABLE when it or this process may open no more files;
// KEEL_NOT_FOUND;
// KEEL_PERMISSION_DENIED when it is another user's; KEEL_TIMED_OUT; KEEL_FAILED_PRECONDITION
// when what came is another object, or one that may shrink; KEEL_DATA_LOSS when the answer is
// none. Thread-safe.
Status fetch_object(const ProcessToken& owner, const ObjectId& id, const Deadline& deadline,
                    const std::function<bool()>& is_given_up, FileDescriptor* out_fd);

// The abstract name at which the process |token| listens.
std::string share_name(const ProcessToken& token);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SHARE_SERVER_H_
