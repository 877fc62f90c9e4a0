// SPDX-License-Identifier: Apache-2.0
#include "fuzz/silent_peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "collectives/bootstrap/process_watch.h"

namespace keel::fuzz {

void require(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.text());
  std::abort();
}

SilentPeer start_silent_peer() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  SilentPeer peer;
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    FileDescriptor file(memfd_create("keel-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (ftruncate(file.get(), SilentPeer::kMemory) != 0) std::abort();
    fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK);
    MemHandleServer& server = MemHandleServer::get();
    require(server.publish(std::move(file), &peer.object), "publish");
    peer.peer_info.process = server.token();
    const bool said =
        write(ends[1], &peer.object, sizeof(peer.object)) == sizeof(peer.object) &&
        write(ends[1], &peer.peer_info.process, sizeof(ProcessToken)) == sizeof(ProcessToken);
    while (said) pause();
    _exit(1);
  }
  if (pid < 0 || read(ends[0], &peer.object, sizeof(peer.object)) != sizeof(peer.object) ||
      read(ends[0], &peer.peer_info.process, sizeof(ProcessToken)) != sizeof(ProcessToken)) {
    std::abort();
  }
  close(ends[0]);
  close(ends[1]);
  peer.peer_info.rank = 1;
  peer.peer_info.pid = pid;
  peer.peer_info.device = "cpu:0";
  require(process_start_time(pid, &peer.peer_info.start_time), "process_start_time");
  return peer;
}

PeerInfo introduce_self(uint32_t rank, const char* device) {
  PeerInfo self;
  self.rank = rank;
  self.pid = getpid();
  self.process = MemHandleServer::get().token();
  self.device = device;
  return self;
}

}  // namespace keel::fuzz
