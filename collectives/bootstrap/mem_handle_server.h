// SPDX-License-Identifier: Apache-2.0
// Memory handle server: passes descriptors of this process's shared memory to processes of the same
// user.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_MEM_HANDLE_SERVER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_MEM_HANDLE_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Answers fetch_object() of other processes of the same user: sends a descriptor of the published
// object with the requested id, from the service thread. Also holds connections for Lifelines.
// Listens at a name derived from the token, from the first publish() or listen() until the process
// ends or execs. Process-wide singleton, never destroyed. Thread-safe.
class MemHandleServer {
 public:
  static MemHandleServer& get();
  MemHandleServer(const MemHandleServer&) = delete;
  MemHandleServer& operator=(const MemHandleServer&) = delete;

  // Identifies this process to other processes.
  const ProcessToken& token() const { return token_; }

  // After the return other processes can connect. KEEL_UNAVAILABLE when out of file descriptors;
  // KEEL_OUT_OF_MEMORY without a thread; KEEL_FORKED.
  Status listen();
  // |fd|: a memfd sealed against shrinking (F_SEAL_SHRINK), else KEEL_FAILED_PRECONDITION: a
  // process that maps the memfd would die of SIGBUS if the owner truncated the file. An object
  // published twice must be withdrawn twice. KEEL_FORKED.
  Status publish(FileDescriptor fd, ObjectId* out_id);
  // The last withdrawal closes the descriptor; processes that fetched the object keep theirs.
  // Ignores an unknown |id|.
  void withdraw(const ObjectId& id);
  bool has(const ObjectId& id);
  // Returns a new descriptor, owned by the caller, of an object that this process published as
  // |id|, without a connection to itself. KEEL_NOT_FOUND; KEEL_UNAVAILABLE when out of file
  // descriptors.
  Status open(const ObjectId& id, FileDescriptor* out_fd);

 private:
  struct Object {
    FileDescriptor fd;
    uint64_t count = 0;
  };

  MemHandleServer();
  Status listen_locked();
  void on_peer(FileDescriptor socket, const Peer& peer);
  // State of a connection after its request.
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

// Fetches the object that |owner| published as |id|; the caller owns the descriptor. An owner of
// ProcPeers is not asked: the descriptor comes through /proc. A stopped
// process never answers: |is_given_up| is polled every 20 ms and ends the wait with KEEL_ABORTED.
// KEEL_RANK_FAILED when the owner has ended; KEEL_UNAVAILABLE when the owner or this process is out
// of file descriptors; KEEL_NOT_FOUND; KEEL_PERMISSION_DENIED when the owner belongs to another
// user; KEEL_TIMED_OUT; KEEL_FAILED_PRECONDITION when the received object has another id or may
// shrink; KEEL_DATA_LOSS for a malformed answer. Thread-safe.
Status fetch_object(const ProcessToken& owner, const ObjectId& id, const Deadline& deadline,
                    const std::function<bool()>& is_given_up, FileDescriptor* out_fd);

// Returns the id of the memfd |fd|; KEEL_FAILED_PRECONDITION when it may shrink.
Status check_object(int fd, ObjectId* out_id);

// Returns the abstract socket name at which the process |token| listens.
std::string share_name(const ProcessToken& token);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_MEM_HANDLE_SERVER_H_
