// SPDX-License-Identifier: Apache-2.0
// A helper process that shares memory with another process through a plugin's tables; keel.h does
// not expose memory sharing. Executes the commands that arrive on its standard input, a socket.
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
  kOpen,    // open device |ordinal| of the plugin |text|
  kExport,  // allocate |size| bytes, export from |offset| on; sets |exported|
  kImport,  // import |exported|
  kWrite,   // write the payload at the start of the last export or import
  kRead,    // read |size| bytes from there into the answer's payload
  kClose,   // close the oldest import that is open
  kFree,    // free the allocation of kExport
  kCount,   // put a SharerCounts into the answer's payload
};

// Resources of the helper process.
struct SharerCounts {
  uint64_t descriptors = 0;
  uint64_t address_space = 0;  // bytes
};

// A request or an answer. An answer repeats the request's command and sets |status| and |text|.
struct SharerMessage {
  SharerMessage() { exported.fd = -1; }
  explicit SharerMessage(SharerCommand does) : command(does) { exported.fd = -1; }

  SharerCommand command = SharerCommand::kOpen;
  keel_status status = KEEL_OK;
  uint32_t ordinal = 0;
  keel_export_kind kind = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  keel_memory_export exported = {};  // the fd is sent along; the receiver owns its copy
  char text[4096] = {};
};
inline constexpr uint64_t kSharerPayload = 64 << 10;

bool send_message(int socket, const SharerMessage& message, std::span<const std::byte> payload);
// Returns false if the peer has closed the socket.
bool receive_message(int socket, SharerMessage* out_message, std::vector<std::byte>* out_payload);

// Serves requests until the peer closes the socket; returns the exit status of the process.
int sharer_main();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SHARER_H_
