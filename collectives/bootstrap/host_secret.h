// SPDX-License-Identifier: Apache-2.0
// The secret of a job, and proofs of its possession.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HOST_SECRET_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HOST_SECRET_H_

#include <cstdint>
#include <string>

#include "collectives/bootstrap/host_messages.h"
#include "core/status.h"

namespace keel {

// Key of the proofs (HMAC-SHA256). Never printed, never sent.
class HostSecret {
 public:
  // Reads the secret: KEEL_SECRET_FILE, a file of this user that no other user can read or write,
  // or KEEL_SECRET_FD, the number of an inherited descriptor. 16 to 4096 bytes; a newline at the
  // end is left out. Without both, is_given() of the result is false. KEEL_INVALID_ARGUMENT and
  // KEEL_PERMISSION_DENIED say what is wrong, without the secret. Thread-safe.
  static Status load(HostSecret* out_secret);
  explicit HostSecret(std::string secret) : secret_(std::move(secret)) {}
  HostSecret() = default;

  bool is_given() const { return !secret_.empty(); }
  // Without a secret the key is |job| itself: whoever knows the unique id may join, which
  // is_given() limits to the loopback interface.
  Status prove(const char* role, const Opening& opening, const Nonce& acceptor, Mac* out_mac) const;

  static constexpr size_t kLeastBytes = 16;
  static constexpr size_t kMostBytes = 4096;

 private:
  std::string secret_;
};

// Compares in a time that does not depend on the content.
bool are_equal(const Mac& a, const Mac& b);
// Draws a nonce from the kernel's generator.
Status draw_nonce(Nonce* out_nonce);
// Token of the job |name|: the first 16 bytes of a hash.
Status job_token(const std::string& name, ProcessToken* out_token);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HOST_SECRET_H_
