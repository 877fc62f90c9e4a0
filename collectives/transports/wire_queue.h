// SPDX-License-Identifier: Apache-2.0
// Posted requests of one direction of a lane, in order.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WIRE_QUEUE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WIRE_QUEUE_H_

#include "collectives/transports/wire.h"

namespace keel {

// Links requests by their next_, so push() does not allocate.
struct WireQueue {
  WireRequest* first = nullptr;
  WireRequest* last = nullptr;

  bool is_empty() const { return first == nullptr; }
  void push(WireRequest& request) {
    if (first == nullptr) {
      first = &request;
    } else {
      last->next_ = &request;
    }
    last = &request;
  }
  WireRequest& pop() {
    WireRequest& request = *first;
    first = request.next_;
    request.next_ = nullptr;
    return request;
  }
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WIRE_QUEUE_H_
