// SPDX-License-Identifier: Apache-2.0
// A sharer (sharer.h) as a case sees it.
#ifndef KEEL_CONFORMANCE_SHARER_PROCESS_H_
#define KEEL_CONFORMANCE_SHARER_PROCESS_H_

#include <sys/types.h>

#include <span>
#include <vector>

#include "conformance/harness.h"
#include "conformance/sharer.h"

namespace keel::conformance {

// Owns one process with the device under test open, which the case may fail of. For one thread.
class SharerProcess {
 public:
  explicit SharerProcess(const Context& context, Where where = Where::current());
  ~SharerProcess();
  SharerProcess(const SharerProcess&) = delete;
  SharerProcess& operator=(const SharerProcess&) = delete;

  // A new allocation of |size| bytes, from |offset| on. False where the device does not export
  // that kind. |out_export->fd| is the caller's.
  bool export_memory(keel_export_kind kind, uint64_t size, uint64_t offset,
                     keel_memory_export* out_export, Where where = Where::current());
  void import_memory(const keel_memory_export& exported, Where where = Where::current());
  // At what was exported or imported last.
  void write(std::span<const std::byte> bytes, Where where = Where::current());
  std::vector<std::byte> read(uint64_t size, Where where = Where::current());
  void close_import(Where where = Where::current());
  void free(Where where = Where::current());

 private:
  // Without the device.
  SharerProcess(int64_t wait_ns, const Where& where);
  // The case fails unless the answer comes in time.
  SharerMessage ask(const SharerMessage& request, std::vector<std::byte>* payload,
                    const Where& where);
  void exchange(const SharerMessage& request, SharerMessage* out_answer,
                std::vector<std::byte>* payload, const Where& where) const;
  // And unless it is good.
  void must_obey(const SharerMessage& request, std::vector<std::byte>* payload, const char* what,
                 const Where& where);

  const int64_t wait_ns_;
  pid_t pid_ = -1;
  int socket_ = -1;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SHARER_PROCESS_H_
