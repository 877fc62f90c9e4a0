// SPDX-License-Identifier: Apache-2.0
#include "conformance/sharer.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <iostream>
#include <string>
#include <thread>
#include <type_traits>

#include "base/ipc/socket.h"
#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

static_assert(std::is_trivially_copyable_v<SharerMessage>);

// The plugin's last error text on this thread.
std::string& last_error() {
  thread_local std::string text;
  return text;
}

keel_status fail(keel_status status, const char* text) {
  last_error() = text;
  return status;
}

// The plugin's device, with a stream and the shared memory. All resources are released when the
// process ends.
class Sharer {
 public:
  keel_status obey(const SharerMessage& request, std::vector<std::byte>* payload,
                   SharerMessage* answer) {
    if (request.command == SharerCommand::kOpen) return open(request);
    if (stream_ == nullptr) return fail(KEEL_FAILED_PRECONDITION, "no device is open");
    const keel_memory_table& memory = *plugin_->memory;
    switch (request.command) {
      case SharerCommand::kExport:
        return export_memory(request, answer);
      case SharerCommand::kImport: {
        void* pointer = nullptr;
        keel_plugin_import* import = nullptr;
        const keel_status status =
            memory.import_memory(device_, &request.exported, &pointer, &import);
        if (request.exported.fd >= 0) close(request.exported.fd);
        if (status != KEEL_OK) return status;
        imports_.push_back(import);
        at_ = static_cast<std::byte*>(pointer);
        return status;
      }
      case SharerCommand::kWrite:
        return copy(KEEL_COPY_HOST_TO_DEVICE, at_, payload->data(), payload->size());
      case SharerCommand::kRead:
        payload->resize(request.size);
        return copy(KEEL_COPY_DEVICE_TO_HOST, payload->data(), at_, payload->size());
      case SharerCommand::kClose: {
        if (imports_.empty()) return fail(KEEL_FAILED_PRECONDITION, "nothing is imported");
        keel_plugin_import* const oldest = imports_.front();
        imports_.pop_front();
        return memory.close_import(device_, oldest);
      }
      case SharerCommand::kFree:
        return memory.free(device_, KEEL_MEMORY_DEVICE, allocation_);
      case SharerCommand::kCount: {
        // On a thread without an observer, as here, the counts are not observed.
        const SharerCounts counts = {observe_entries("fd"), observe_address_space()};
        payload->resize(sizeof(counts));
        std::memcpy(payload->data(), &counts, sizeof(counts));
        return KEEL_OK;
      }
      default:
        return fail(KEEL_INVALID_ARGUMENT, "no such command");
    }
  }

 private:
  keel_status open(const SharerMessage& request) {
    static const keel_host host = {
        {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
        nullptr,
        [](void*, keel_log_level, const char*) {},
        [](void*, const char* text) { last_error() = text; },
    };
    void* const library = dlopen(request.text, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail(KEEL_NOT_FOUND, dlerror());
    const auto query =
        reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
    if (query == nullptr) return fail(KEEL_NOT_FOUND, dlerror());
    keel_status status = query(&host, &plugin_);
    keel_plugin_instance* instance = nullptr;
    if (status == KEEL_OK) status = plugin_->create_instance(nullptr, &instance);
    // Some plugins enumerate their devices or start their SDK in count().
    uint32_t count = 0;
    if (status == KEEL_OK) status = plugin_->device->count(instance, &count);
    if (status == KEEL_OK) status = plugin_->device->open(instance, request.ordinal, &device_);
    if (status != KEEL_OK) return status;
    if (!KEEL_HAS(keel_memory_table, plugin_->memory, export_memory) ||
        !KEEL_HAS(keel_memory_table, plugin_->memory, import_memory) ||
        !KEEL_HAS(keel_memory_table, plugin_->memory, close_import)) {
      return fail(KEEL_UNSUPPORTED,
                  "one of export_memory, import_memory, close_import is not there");
    }
    status = plugin_->stream->event_create(device_, 0, &event_);
    return status == KEEL_OK ? plugin_->stream->create(device_, 0, &stream_) : status;
  }

  keel_status export_memory(const SharerMessage& request, SharerMessage* answer) {
    keel_status status = plugin_->memory->alloc(device_, KEEL_MEMORY_DEVICE, request.size,
                                                KEEL_USAGE_EXPORT, &allocation_);
    if (status != KEEL_OK) return status;
    at_ = static_cast<std::byte*>(allocation_) + request.offset;
    answer->exported.header = {sizeof(answer->exported), KEEL_STRUCT_MEMORY_EXPORT, nullptr};
    answer->exported.fd = -1;
    status =
        plugin_->memory->export_memory(device_, at_, request.size - request.offset, request.kind,
                                       /*importer_pid=*/0, &answer->exported);
    if (status != KEEL_OK) plugin_->memory->free(device_, KEEL_MEMORY_DEVICE, allocation_);
    return status;
  }

  keel_status copy(keel_copy_kind kind, void* to, const void* from, uint64_t size) {
    const keel_stream_table& streams = *plugin_->stream;
    keel_status status = streams.copy(stream_, kind, to, from, size);
    if (status == KEEL_OK) status = streams.event_record(event_, stream_);
    if (status != KEEL_OK) return status;
    while ((status = streams.event_query(event_)) == KEEL_NOT_READY) std::this_thread::yield();
    return status;
  }

  const keel_plugin* plugin_ = nullptr;
  keel_plugin_device* device_ = nullptr;
  keel_plugin_stream* stream_ = nullptr;
  keel_plugin_event* event_ = nullptr;
  std::deque<keel_plugin_import*> imports_;  // open ones, the oldest first
  void* allocation_ = nullptr;
  std::byte* at_ = nullptr;
};

}  // namespace

bool send_message(int socket, const SharerMessage& message, std::span<const std::byte> payload) {
  const iovec parts[] = {{const_cast<SharerMessage*>(&message), sizeof(message)},
                         {const_cast<std::byte*>(payload.data()), payload.size()}};
  const int& fd = message.exported.fd;
  return sockets::send_packet(socket, parts, {&fd, fd >= 0 ? size_t{1} : 0}) ==
         static_cast<ssize_t>(sizeof(message) + payload.size());
}

bool receive_message(int socket, SharerMessage* out_message, std::vector<std::byte>* out_payload) {
  out_payload->resize(kSharerPayload);
  const iovec parts[] = {{out_message, sizeof(*out_message)},
                         {out_payload->data(), out_payload->size()}};
  std::vector<FileDescriptor> descriptors;
  int flags = 0;
  const ssize_t got = sockets::receive_packet(socket, parts, &descriptors, &flags);
  if (got < static_cast<ssize_t>(sizeof(*out_message))) return false;
  out_payload->resize(static_cast<size_t>(got) - sizeof(*out_message));
  out_message->exported.fd = descriptors.empty() ? -1 : descriptors[0].release();
  return true;
}

int sharer_main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // do not outlive a killed worker
  auto& sharer = *new Sharer;        // leaked: the process just ends
  SharerMessage request;
  std::vector<std::byte> payload;
  bool is_asked = false;
  while (receive_message(STDIN_FILENO, &request, &payload)) {
    is_asked = true;
    SharerMessage answer(request.command);
    last_error().clear();
    answer.status = sharer.obey(request, &payload, &answer);
    std::strncpy(answer.text, last_error().c_str(), sizeof(answer.text) - 1);
    const bool has_payload =
        request.command == SharerCommand::kRead || request.command == SharerCommand::kCount;
    if (!has_payload) payload.clear();
    const bool sent = send_message(STDIN_FILENO, answer, payload);
    if (answer.exported.fd >= 0) close(answer.exported.fd);
    if (!sent) break;
  }
  if (is_asked) _exit(0);
  std::cerr << "keel " << kSharerCommand << " is for `keel conform` to start\n";
  return 2;
}

}  // namespace keel::conformance
