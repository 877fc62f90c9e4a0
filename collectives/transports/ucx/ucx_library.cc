// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>

#include "core/log.h"

namespace keel {

namespace {

// Restores the handlers of all signals: UCX takes those of crashes and of SIGHUP when loaded, which
// belong to the program.
class KeptSignals {
 public:
  KeptSignals() {
    for (int number = 1; number < NSIG; ++number) {
      const auto index = static_cast<size_t>(number);
      is_known_[index] = sigaction(number, nullptr, &actions_[index]) == 0;
    }
  }
  ~KeptSignals() {
    for (int number = 1; number < NSIG; ++number) {
      const auto index = static_cast<size_t>(number);
      struct sigaction now = {};
      if (!is_known_[index] || sigaction(number, nullptr, &now) != 0) continue;
      const bool has_changed =
          now.sa_handler != actions_[index].sa_handler || now.sa_flags != actions_[index].sa_flags;
      if (has_changed) sigaction(number, &actions_[index], nullptr);
    }
  }

 private:
  std::array<struct sigaction, NSIG> actions_ = {};
  std::array<bool, NSIG> is_known_ = {};
};

// UCX writes its messages to the standard output, which belongs to the program.
ucx::LogNext on_log(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                    ucx::LogLevel level, const void* /*component*/, const char* format,
                    va_list arguments) {
  if (level > ucx::LogLevel::kWarning) return ucx::LogNext::kContinue;
  std::array<char, 512> text;
  vsnprintf(text.data(), text.size(), format, arguments);
  const bool is_warning = level == ucx::LogLevel::kWarning;
  try {
    log(is_warning ? KEEL_LOG_WARNING : KEEL_LOG_ERROR, "UCX: {}", text.data());
  } catch (const std::bad_alloc&) {  // the message is lost
  }
  return ucx::LogNext::kStop;
}

Status open_library(const char* name, void** out_library) {
  *out_library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (*out_library != nullptr) return {};
  const char* const why = dlerror();
  return failure(KEEL_UNAVAILABLE, "UCX cannot be opened: {}", why == nullptr ? name : why);
}

class Symbols {
 public:
  Symbols(void* library, const char* file) : library_(library), file_(file) {}
  template <typename Function>
  void find(const char* name, Function** out_function) {
    *out_function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (*out_function == nullptr && status_.ok()) {
      status_ = failure(KEEL_UNAVAILABLE, "{} has no function {}: UCX {}.{} or later is needed",
                        file_, name, ucx::kApiMajor, ucx::kApiMinor);
    }
  }
  const Status& status() const { return status_; }

 private:
  void* const library_;
  const char* const file_;
  Status status_;
};

}  // namespace

Status UcxLibrary::open(const char* ucp, const char* ucs, UcxLibrary* out_library) {
  const KeptSignals kept;
  void* protocols = nullptr;
  void* services = nullptr;
  KEEL_RETURN_IF_ERROR(open_library(ucp, &protocols));
  KEEL_RETURN_IF_ERROR(open_library(ucs, &services));
  ucx::Functions& to = out_library->functions_;
  Symbols found(protocols, ucp);
  found.find("ucp_get_version", &to.get_version);
  found.find("ucp_config_read", &to.config_read);
  found.find("ucp_config_modify", &to.config_modify);
  found.find("ucp_config_release", &to.config_release);
  found.find("ucp_init_version", &to.init_version);
  found.find("ucp_cleanup", &to.cleanup);
  found.find("ucp_worker_create", &to.worker_create);
  found.find("ucp_worker_destroy", &to.worker_destroy);
  found.find("ucp_worker_get_address", &to.worker_get_address);
  found.find("ucp_worker_release_address", &to.worker_release_address);
  found.find("ucp_worker_progress", &to.worker_progress);
  found.find("ucp_worker_get_efd", &to.worker_get_efd);
  found.find("ucp_worker_arm", &to.worker_arm);
  found.find("ucp_worker_signal", &to.worker_signal);
  found.find("ucp_worker_set_am_recv_handler", &to.worker_set_am_recv_handler);
  found.find("ucp_ep_create", &to.ep_create);
  found.find("ucp_ep_close_nbx", &to.ep_close_nbx);
  found.find("ucp_ep_flush_nbx", &to.ep_flush_nbx);
  found.find("ucp_am_send_nbx", &to.am_send_nbx);
  found.find("ucp_am_recv_data_nbx", &to.am_recv_data_nbx);
  found.find("ucp_am_data_release", &to.am_data_release);
  found.find("ucp_request_check_status", &to.request_check_status);
  found.find("ucp_request_free", &to.request_free);
  KEEL_RETURN_IF_ERROR(found.status());
  Symbols base(services, ucs);
  base.find("ucs_status_string", &to.status_string);
  base.find("ucs_log_push_handler", &to.log_push_handler);
  KEEL_RETURN_IF_ERROR(base.status());
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  to.get_version(&major, &minor, &release);
  if (major != ucx::kApiMajor || minor < ucx::kApiMinor) {
    return failure(KEEL_UNAVAILABLE, "{} is UCX {}.{}.{}: UCX {}.{} or later, below {}, is needed",
                   ucp, major, minor, release, ucx::kApiMajor, ucx::kApiMinor, ucx::kApiMajor + 1);
  }
  out_library->version_ = fmt::format("{}.{}", major, minor);
  return {};
}

Status UcxLibrary::get(const UcxLibrary** out_library) {
  // A failure is not kept: the library may be installed while the process runs.
  static std::mutex mutex;
  static UcxLibrary* library = nullptr;  // never destroyed: wires may outlive static objects
  const std::lock_guard lock(mutex);
  if (library == nullptr) {
    UcxLibrary opened;
    KEEL_RETURN_IF_ERROR(open("libucp.so.0", "libucs.so.0", &opened));
    opened.functions().log_push_handler(&on_log);
    library = new UcxLibrary(std::move(opened));
  }
  *out_library = library;
  return {};
}

}  // namespace keel
