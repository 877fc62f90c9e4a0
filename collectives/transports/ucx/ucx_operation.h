// SPDX-License-Identifier: Apache-2.0
// A message that UCX is moving.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_OPERATION_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_OPERATION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "collectives/transports/ucx/ucx_api.h"
#include "collectives/transports/wire.h"
#include "core/status.h"

namespace keel {

class UcxPeer;

// Drawn by the receiver for one sender, and sent over their authenticated connection.
using UcxKey = std::array<uint8_t, 16>;

// In front of each message. Little-endian, as all hosts of Keel.
struct UcxHeader {
  static constexpr uint32_t kHello = UINT32_MAX;  // as |lane|: see UcxPeer
  UcxKey key = {};
  uint32_t from = 0;
  uint32_t lane = 0;
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  WireMark mark = {};
};
static_assert(sizeof(UcxHeader) == 64 && std::is_trivially_copyable_v<UcxHeader>);

struct UcxOperation {
  UcxPeer* peer = nullptr;
  WireRequest* request = nullptr;
  UcxHeader header;  // UCX may read the header of a send until the end
  bool is_send = false;
  bool is_rendezvous = false;
  bool is_in_flight = false;  // UCX may touch the memory of the request
  Status status;              // of the request, once UCX is done
  UcxOperation* next = nullptr;
};

// A list of operations.
class UcxOperations {
 public:
  bool is_empty() const { return first_ == nullptr; }
  void push(UcxOperation& operation) {
    operation.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &operation;
    last_ = &operation;
  }
  UcxOperation& pop() {
    UcxOperation& operation = *first_;
    first_ = operation.next;
    return operation;
  }

 private:
  UcxOperation* first_ = nullptr;
  UcxOperation* last_ = nullptr;
};

// The operations of a set of wires. Allocates when more are in use than ever before.
class UcxOperationPool {
 public:
  UcxOperation& take() {
    if (free_.is_empty()) {
      all_.push_back(std::make_unique<UcxOperation>());
      return *all_.back();
    }
    return free_.pop();
  }
  void put(UcxOperation& operation) {
    operation.request = nullptr;
    operation.is_in_flight = false;
    operation.status = Status();
    free_.push(operation);
  }
  const std::vector<std::unique_ptr<UcxOperation>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<UcxOperation>> all_;
  UcxOperations free_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_OPERATION_H_
