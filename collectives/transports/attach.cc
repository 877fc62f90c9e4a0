// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/attach.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace keel {

namespace {

// Whether the kernel can read both ends of the range through process_vm_readv: the kernel refuses
// special memory even to its own process.
bool is_ordinary(uintptr_t begin, uint64_t bytes) {
  char ends[2];
  const iovec local = {ends, sizeof(ends)};
  const iovec remote[] = {{reinterpret_cast<void*>(begin), 1},
                          {reinterpret_cast<void*>(begin + bytes - 1), 1}};
  return process_vm_readv(getpid(), &local, 1, remote, 2, 0) == sizeof(ends);
}

}  // namespace

Status read_process(int64_t pid, uint64_t address, void* out, uint64_t bytes) {
  auto* to = static_cast<char*>(out);
  while (bytes != 0) {
    const iovec local = {to, bytes};
    const iovec remote = {reinterpret_cast<void*>(address), bytes};
    const ssize_t got = process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
    if (got > 0) {
      to += got;
      address += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
      continue;
    }
    const int error = got < 0 ? errno : EFAULT;
    if (error == EINTR) continue;
    return failure(error == EFAULT ? KEEL_RANK_FAILED : KEEL_UNAVAILABLE,
                   "{} bytes at {:#x} of process {} cannot be read: {}", bytes, address, pid,
                   std::strerror(error));
  }
  return {};
}

Attach::Attach(const std::vector<PeerInfo>& peer_infos, uint32_t rank)
    : peer_infos_(&peer_infos), rank_(rank) {
  const char* const wanted = secure_getenv("KEEL_ATTACH");
  const bool is_off = wanted != nullptr && std::strcmp(wanted, "0") == 0;
  for (const PeerInfo& other : peer_infos) {
    if (other.process != peer_infos[rank].process && !is_off) state_ = State::kAsleep;
  }
}

bool Attach::lets_read(const void* pointer, uint64_t bytes, uint64_t registrations) {
  if (prctl(PR_GET_DUMPABLE) != 1) return false;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  if (ordinary_.hold(registrations, begin, bytes)) return true;
  if (!is_ordinary(begin, bytes)) return false;
  ordinary_.remember(registrations, begin, bytes);
  return true;
}

bool Attach::can_read_all(OperationBoard& board, uint64_t sequence) const {
  const ProcessToken& own = (*peer_infos_)[rank_].process;
  const ProcessToken* last = nullptr;  // ranks of one process are often consecutive
  for (uint32_t other = 0; other < peer_infos_->size(); ++other) {
    const PeerInfo& peer_info = (*peer_infos_)[other];
    if (peer_info.process == own || (last != nullptr && peer_info.process == *last)) continue;
    last = &peer_info.process;
    ProcessToken token;
    const uint64_t address = board.descriptor(other, sequence).token;
    if (!read_process(peer_info.pid, address, token.bytes.data(), token.bytes.size()).ok() ||
        token != peer_info.process) {
      return false;
    }
  }
  return true;
}

bool Attach::all_can(OperationBoard& board, uint64_t sequence) const {
  for (uint32_t rank = 0; rank < peer_infos_->size(); ++rank) {
    if ((board.descriptor(rank, sequence).flags & OperationDescriptor::kAttaches) == 0)
      return false;
  }
  return true;
}

void Attach::tell_on(OperationBoard& board, uint64_t sequence, OperationDescriptor* descriptor) {
  if (state_ == State::kAsleep) {
    descriptor->flags |= OperationDescriptor::kWantsAttach;
    return wake(sequence);
  }
  switch (sequence - woken_) {
    case 1:
      descriptor->token = reinterpret_cast<uint64_t>((*peer_infos_)[rank_].process.bytes.data());
      break;
    case 2:
      if (can_read_all(board, sequence - 1)) descriptor->flags |= OperationDescriptor::kAttaches;
      break;
    default:
      state_ = all_can(board, sequence - 1) ? State::kAgreed : State::kNever;
  }
}

}  // namespace keel
