// SPDX-License-Identifier: Apache-2.0
// A key-value store of the caller's, with the texts and deadlines of Keel.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_CALLER_STORE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_CALLER_STORE_H_

#include <keel/store.h>

#include <cstdint>
#include <functional>
#include <string>

#include "collectives/bootstrap/messages.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// The values of one communicator in the store. For one thread at a time. Failures name function and
// key.
class CallerStore {
 public:
  // Checks the caller's struct: KEEL_INVALID_ARGUMENT.
  static Status check(const keel_store* given);
  // Copies |given|, which check() has accepted.
  explicit CallerStore(const keel_store& given);

  std::string key(const std::string& name) const { return "keel-1/" + prefix_ + '/' + name; }
  Status set(const std::string& name, ByteView value, const Deadline& deadline) const;
  // Waits for the value, of at most |most| bytes. Between two questions calls |look|, whose failure
  // ends the wait. KEEL_TIMED_OUT at |deadline|; KEEL_DATA_LOSS for a longer value.
  Status get(const std::string& name, uint64_t most, const Deadline& deadline,
             const std::function<Status()>& look, Bytes* out_value) const;
  // Does not wait: KEEL_TIMED_OUT if there is no value.
  Status look_up(const std::string& name, uint64_t most, Bytes* out_value) const;

 private:
  // One question. Status::not_ready() if the value is not there.
  Status ask(const std::string& key, uint64_t most, int64_t timeout_ns, Bytes* out_value) const;

  std::string prefix_;
  keel_store store_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_CALLER_STORE_H_
