// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

constexpr const char* kFile = "KEEL_SECRET_FILE";
constexpr const char* kDescriptor = "KEEL_SECRET_FD";

// Reads up to kMostBytes + 1 bytes. A file is read from its beginning, whatever its position, which
// processes that inherited the descriptor share.
Status read_all(int fd, bool is_file, const std::string& name, std::string* out_text) {
  std::string text(HostSecret::kMostBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got =
        is_file ? pread(fd, text.data() + size, text.size() - size, static_cast<off_t>(size))
                : read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(errno, "reading " + name);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  *out_text = std::move(text);
  return {};
}

Status check(std::string text, const std::string& name, HostSecret* out_secret) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.size() < HostSecret::kLeastBytes || text.size() > HostSecret::kMostBytes) {
    return failure(KEEL_INVALID_ARGUMENT, "the secret in {} has {}{} bytes; {} to {} are allowed",
                   name, text.size() > HostSecret::kMostBytes ? "more than " : "",
                   std::min(text.size(), HostSecret::kMostBytes), HostSecret::kLeastBytes,
                   HostSecret::kMostBytes);
  }
  *out_secret = HostSecret(std::move(text));
  return {};
}

Status load_file(const char* path, HostSecret* out_secret) {
  const std::string name = fmt::format("{}={}", kFile, path);
  // A FIFO would block the open.
  const FileDescriptor file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return system_failure(errno, name);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return system_failure(errno, name);
  if (!S_ISREG(info.st_mode)) return failure(KEEL_INVALID_ARGUMENT, "{} is no file", name);
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return failure(KEEL_PERMISSION_DENIED, "{} belongs to uid {}, not to uid {}", name, info.st_uid,
                   geteuid());
  }
  if ((info.st_mode & 077) != 0) {
    return failure(KEEL_PERMISSION_DENIED, "{} has mode {:o}: other users may use it; set mode 600",
                   name, info.st_mode & 0777);
  }
  std::string text;
  KEEL_RETURN_IF_ERROR(read_all(file.get(), true, name, &text));
  return check(std::move(text), name, out_secret);
}

// Reads a pipe once and keeps the text for later calls.
Status load_descriptor(const char* number, HostSecret* out_secret) {
  const std::string name =
      fmt::format("{}={}", kDescriptor, std::string_view(number).substr(0, 16));
  const std::string_view digits = number;
  int fd = -1;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), fd);
  struct stat info = {};
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || fd < 0) {
    return failure(KEEL_INVALID_ARGUMENT, "{} is no descriptor", name);
  }
  static std::mutex& mutex = *new std::mutex;
  static std::map<int, std::string>& pipes = *new std::map<int, std::string>;
  std::lock_guard lock(mutex);
  std::string text;
  if (const auto known = pipes.find(fd); known != pipes.end()) {
    text = known->second;
  } else {
    if (fstat(fd, &info) != 0) return system_failure(errno, name);
    KEEL_RETURN_IF_ERROR(read_all(fd, S_ISREG(info.st_mode), name, &text));
    if (!S_ISREG(info.st_mode)) pipes.emplace(fd, text);
  }
  return check(std::move(text), name, out_secret);
}

Status openssl_failure(const char* what) {
  return failure(KEEL_INTERNAL, "OpenSSL could not compute {}", what);
}

}  // namespace

Status HostSecret::load(HostSecret* out_secret) {
  *out_secret = HostSecret();
  const char* const file = trusted_environment(kFile);
  if (file != nullptr && *file != '\0') return load_file(file, out_secret);
  const char* const number = trusted_environment(kDescriptor);
  if (number != nullptr && *number != '\0') return load_descriptor(number, out_secret);
  return {};
}

Status HostSecret::prove(const char* role, const Opening& opening, const Nonce& acceptor,
                         Mac* out_mac) const {
  // The role comes first, so that no proof of one side is one of the other. Fields of |opening| are
  // of fixed size or carry their size: two openings never give the same bytes.
  std::string text = role;
  text += '\0';
  const Bytes opened = write_opening(opening);
  text.append(reinterpret_cast<const char*>(opened.data()), opened.size());
  text.append(reinterpret_cast<const char*>(acceptor.data()), acceptor.size());
  const std::string_view key =
      is_given() ? std::string_view(secret_)
                 : std::string_view(reinterpret_cast<const char*>(opening.job.bytes.data()),
                                    opening.job.bytes.size());
  unsigned int size = 0;
  const unsigned char* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                         reinterpret_cast<const unsigned char*>(text.data()),
                                         text.size(), out_mac->data(), &size);
  // The service thread never ends, and OpenSSL would keep state for it that nothing frees.
  if (ServiceThread::get().is_current()) OPENSSL_thread_stop();
  return made != nullptr && size == out_mac->size() ? Status() : openssl_failure("a proof");
}

bool are_equal(const Mac& a, const Mac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status draw_nonce(Nonce* out_nonce) {
  ssize_t got = 0;
  do {
    got = getrandom(out_nonce->data(), out_nonce->size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(out_nonce->size())) return system_failure(errno, "getrandom");
  return {};
}

Status job_token(const std::string& name, ProcessToken* out_token) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  const std::string text = "keel job " + name;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return openssl_failure("the name of the job");
  }
  std::copy_n(digest.begin(), out_token->bytes.size(), out_token->bytes.begin());
  return {};
}

}  // namespace keel
