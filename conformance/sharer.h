// SPDX-License-Identifier: Apache-2.0
// A process that has memory in common with another one through a plugin's tables, which keel.h has
// no way to. It does what the messages on its standard input, a socket, tell it.
#ifndef KEEL_CONFORMANCE_SHARER_H_
#define KEEL_CONFORMANCE_SHARER_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace keel::conformance {

inline constexpr const char* kSharerCommand = "conform-sharer";

enum class SharerCommand : uint32_t {
  kOpen,    // the plugin |text|, device |ordinal|
  kExport,  // |size| bytes of its own, from |offset| on: |kind|; the answer has |exported|
  kImport,  // |exported|
  kWrite,   // the payload, to where the export or the import begins
  kRead,    // |size| bytes from there: the answer's payload
  kClose,   // the import
  kFree,    // what kExport allocated
};

// One of both ways; an answer has the command's, and |status| with |text|.
struct SharerMessage {
  SharerMessage() { exported.fd = -1; }
  explicit SharerMessage(SharerCommand does) : command(does) { exported.fd = -1; }

  SharerCommand command = SharerCommand::kOpen;
  keel_status status = KEEL_OK;
  uint32_t ordinal = 0;
  keel_export_kind kind = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  keel_memory_export exported = {};  // its fd goes along, and is the receiver's
  char text[4096] = {};
};
inline constexpr uint64_t kSharerPayload = 64 << 10;

bool send_message(int socket, const SharerMessage& message, std::span<const std::byte> payload);
// False when the other end is gone.
bool receive_message(int socket, SharerMessage* out_message, std::vector<std::byte>* out_payload);

// Until the other end is gone; the exit status of the process.
int sharer_main();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SHARER_H_
