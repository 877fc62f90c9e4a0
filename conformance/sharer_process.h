// SPDX-License-Identifier: Apache-2.0
// The case's side of a sharer process (sharer.h).
#ifndef KEEL_CONFORMANCE_SHARER_PROCESS_H_
#define KEEL_CONFORMANCE_SHARER_PROCESS_H_

#include <span>
#include <vector>

#include "base/ipc/process.h"
#include "conformance/harness.h"
#include "conformance/sharer.h"

namespace keel::conformance {

// Owns one process that has opened the device under test; if the process fails to open the device,
// the case fails. Not thread-safe.
class SharerProcess {
 public:
  explicit SharerProcess(const Context& context, Where where = Where::current());
  SharerProcess(const SharerProcess&) = delete;
  SharerProcess& operator=(const SharerProcess&) = delete;

  // Allocates |size| bytes in the process and exports the memory from |offset| on. Returns false if
  // the device does not support exports of |kind|. The caller owns |out_export->fd|.
  bool export_memory(keel_export_kind kind, uint64_t size, uint64_t offset,
                     keel_memory_export* out_export, Where where = Where::current());
  void import_memory(const keel_memory_export& exported, Where where = Where::current());
  // Returns the status of an import that may be refused.
  keel_status try_import(const keel_memory_export& exported, Where where = Where::current());
  // Write and read at the start of the last export or import.
  void write(std::span<const std::byte> bytes, Where where = Where::current());
  std::vector<std::byte> read(uint64_t size, Where where = Where::current());
  // Closes the oldest import that is open.
  void close_import(Where where = Where::current());
  void free(Where where = Where::current());
  // Returns the resources that the process holds now.
  SharerCounts counts(Where where = Where::current());

 private:
  // Starts the process without opening the device.
  SharerProcess(int64_t wait_ns, const Where& where);
  // Sends |request| and returns the answer; a timeout fails the case.
  SharerMessage ask(const SharerMessage& request, std::vector<std::byte>* payload,
                    const Where& where);
  void exchange(const SharerMessage& request, SharerMessage* out_answer,
                std::vector<std::byte>* payload, const Where& where) const;
  // ask(), and fails the case unless the answer's status is KEEL_OK.
  void must_obey(const SharerMessage& request, std::vector<std::byte>* payload, const char* what,
                 const Where& where);

  const int64_t wait_ns_;
  Process process_;
  FileDescriptor socket_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SHARER_PROCESS_H_
