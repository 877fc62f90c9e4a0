// SPDX-License-Identifier: Apache-2.0
#include "conformance/sharer_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>

#include "base/ipc/poll.h"
#include "base/ipc/socket.h"
#include "conformance/protocol.h"

namespace keel::conformance {

namespace {

void check_answer(const SharerMessage& answer, const std::string& what, const Where& where) {
  check(answer.status == KEEL_OK,
        fmt::format("{}: {}: {}", what, keel_status_name(answer.status), answer.text), where);
}

}  // namespace

SharerProcess::SharerProcess(int64_t wait_ns, const Where& where) : wait_ns_(wait_ns) {
  if (judging()) return;
  FileDescriptor theirs;
  check(sockets::open_pair(SOCK_SEQPACKET, &socket_, &theirs) == 0, "socketpair", where);
  ProcessOptions options;
  options.program = "/proc/self/exe";
  options.command = {"keel", kSharerCommand};
  options.descriptors = {{theirs.get(), STDIN_FILENO}};
  options.closed = {kAnswerDescriptor};
  const int error = process_.start(options);
  if (error != 0) fail_case(fmt::format("posix_spawn: {}", strerror(error)), where);
}

SharerProcess::SharerProcess(const Context& context, Where where)
    : SharerProcess(context.environment.wait_ns, where) {
  const Target& target = context.environment.target;
  SharerMessage request(SharerCommand::kOpen);
  request.ordinal =
      static_cast<uint32_t>(std::stoul(target.device.substr(target.device.rfind(':') + 1)));
  std::strncpy(request.text, target.path.c_str(), sizeof(request.text) - 1);
  std::vector<std::byte> nothing;
  const SharerMessage answer = ask(request, &nothing, where);
  if (answer.status == KEEL_UNAVAILABLE) {
    unsupported(fmt::format("the device is for one process at a time: {}", answer.text));
  }
  check_answer(answer, "opening the device in another process", where);
}

SharerMessage SharerProcess::ask(const SharerMessage& request, std::vector<std::byte>* payload,
                                 const Where& where) {
  SharerMessage answer;
  if (!judging()) exchange(request, &answer, payload, where);
  answer.status = observe_status(answer.status, where);
  const std::string text = observe_text(answer.text, where);
  std::copy_n(text.c_str(), text.size() + 1, answer.text);
  payload->resize(observe(uint64_t{payload->size()}, where));
  observe_bytes(*payload, where);
  observe_bytes(std::as_writable_bytes(std::span(&answer.exported, 1)), where);
  return answer;
}

void SharerProcess::exchange(const SharerMessage& request, SharerMessage* out_answer,
                             std::vector<std::byte>* payload, const Where& where) const {
  check(send_message(socket_.get(), request, *payload), "the other process has ended", where);
  const auto deadline = Process::Clock::now() + std::chrono::nanoseconds(wait_ns_);
  check(poll_until(socket_.get(), POLLIN, deadline) == 1, "the other process does not answer",
        where);
  check(receive_message(socket_.get(), out_answer, payload), "the other process has ended", where);
}

void SharerProcess::must_obey(const SharerMessage& request, std::vector<std::byte>* payload,
                              const char* what, const Where& where) {
  check_answer(ask(request, payload, where), what, where);
}

bool SharerProcess::export_memory(keel_export_kind kind, uint64_t size, uint64_t offset,
                                  keel_memory_export* out_export, Where where) {
  SharerMessage request(SharerCommand::kExport);
  request.kind = kind;
  request.size = size;
  request.offset = offset;
  std::vector<std::byte> nothing;
  const SharerMessage answer = ask(request, &nothing, where);
  if (answer.status == KEEL_UNSUPPORTED) return false;
  check_answer(answer, fmt::format("export_memory of kind {}", kind), where);
  *out_export = answer.exported;
  return true;
}

void SharerProcess::import_memory(const keel_memory_export& exported, Where where) {
  SharerMessage request(SharerCommand::kImport);
  request.exported = exported;
  std::vector<std::byte> nothing;
  must_obey(request, &nothing, "import_memory", where);
}

keel_status SharerProcess::try_import(const keel_memory_export& exported, Where where) {
  SharerMessage request(SharerCommand::kImport);
  request.exported = exported;
  std::vector<std::byte> nothing;
  return ask(request, &nothing, where).status;
}

void SharerProcess::write(std::span<const std::byte> bytes, Where where) {
  SharerMessage request(SharerCommand::kWrite);
  std::vector<std::byte> payload(bytes.begin(), bytes.end());
  must_obey(request, &payload, "a copy to the memory", where);
}

std::vector<std::byte> SharerProcess::read(uint64_t size, Where where) {
  SharerMessage request(SharerCommand::kRead);
  request.size = size;
  std::vector<std::byte> payload;
  must_obey(request, &payload, "a copy from the memory", where);
  return payload;
}

void SharerProcess::close_import(Where where) {
  SharerMessage request(SharerCommand::kClose);
  std::vector<std::byte> nothing;
  must_obey(request, &nothing, "close_import", where);
}

void SharerProcess::free(Where where) {
  SharerMessage request(SharerCommand::kFree);
  std::vector<std::byte> nothing;
  must_obey(request, &nothing, "free", where);
}

SharerCounts SharerProcess::counts(Where where) {
  const SharerMessage request(SharerCommand::kCount);
  std::vector<std::byte> payload;
  must_obey(request, &payload, "a count of resources", where);
  SharerCounts counts;
  check(payload.size() == sizeof(counts), "a count of resources of another size", where);
  std::memcpy(&counts, payload.data(), sizeof(counts));
  return counts;
}

}  // namespace keel::conformance
