// SPDX-License-Identifier: Apache-2.0
// The part of UCX's UCP interface that Keel calls, as of UCX 1.13.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_API_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_API_H_

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Written from UCX's public API documentation, since few build machines have its headers. UCX keeps
// its interface compatible within a major version: a structure grows at its end alone, and its mask
// says which members the caller has set. Names are UCX's without the prefix.
namespace keel::ucx {

inline constexpr unsigned kApiMajor = 1;
inline constexpr unsigned kApiMinor = 13;

// One byte, also as an argument and a result.
enum class Result : int8_t {
  kOk = 0,
  kInProgress = 1,
  kNoMemory = -4,
  kBusy = -15,
  kCanceled = -16,
};

struct Context;
struct Config;
struct Worker;
struct Endpoint;
struct Address;
struct Memory;

// Either NULL (done), a request, or a result that is an error.
using Pending = void*;
inline bool is_error(Pending pending) {
  return reinterpret_cast<uintptr_t>(pending) >= static_cast<uintptr_t>(-100);
}
inline bool is_request(Pending pending) {
  return pending != nullptr && !is_error(pending);
}
inline Result error_of(Pending pending) {
  return static_cast<Result>(reinterpret_cast<intptr_t>(pending));
}

inline constexpr uint64_t kFeatureWakeup = 1 << 4;
inline constexpr uint64_t kFeatureActiveMessages = 1 << 6;

struct Params {
  static constexpr uint64_t kFeatures = 1 << 0;
  static constexpr uint64_t kEstimatedEndpoints = 1 << 6;
  uint64_t field_mask;
  uint64_t features;
  size_t request_size;
  void (*request_init)(void* request);
  void (*request_cleanup)(void* request);
  uint64_t tag_sender_mask;
  int mt_workers_shared;
  size_t estimated_num_eps;
  size_t estimated_num_ppn;
  const char* name;
};

enum class ThreadMode : int { kSingle = 0, kSerialized = 1, kMulti = 2 };

struct WorkerParams {
  static constexpr uint64_t kThreadMode = 1 << 0;
  uint64_t field_mask;
  ThreadMode thread_mode;
  uint64_t cpu_mask[16];  // 1024 processors
  unsigned events;
  void* user_data;
  int event_fd;
  uint64_t flags;
  const char* name;
  size_t am_alignment;
  uint64_t client_id;
};

enum class ErrorHandling : int { kNone = 0, kPeer = 1 };
using ErrorCallback = void (*)(void* argument, Endpoint* endpoint, Result result);

struct SocketAddress {
  const sockaddr* address;
  socklen_t size;
};

struct EndpointParams {
  static constexpr uint64_t kRemoteAddress = 1 << 0;
  static constexpr uint64_t kErrorMode = 1 << 1;
  static constexpr uint64_t kErrorHandler = 1 << 2;
  uint64_t field_mask;
  const Address* address;
  ErrorHandling err_mode;
  struct {
    ErrorCallback callback;
    void* argument;
  } err_handler;
  void* user_data;
  unsigned flags;
  SocketAddress sockaddr;
  void* conn_request;
  const char* name;
  SocketAddress local_sockaddr;
};

using SendCallback = void (*)(void* request, Result result, void* user_data);
using ReceiveCallback = void (*)(void* request, Result result, size_t length, void* user_data);

// Datatypes: bytes, and an array of {pointer, size}, which has the layout of iovec.
inline constexpr uint64_t kBytes = 1 << 3;
inline constexpr uint64_t kPieces = 2;
static_assert(sizeof(iovec) == 2 * sizeof(void*) && offsetof(iovec, iov_len) == sizeof(void*));

enum class MemoryType : int { kHost = 0 };

struct RequestParam {
  static constexpr uint32_t kCallback = 1 << 1;
  static constexpr uint32_t kUserData = 1 << 2;
  static constexpr uint32_t kDatatype = 1 << 3;
  static constexpr uint32_t kFlags = 1 << 4;
  static constexpr uint32_t kMemoryType = 1 << 6;
  uint32_t op_attr_mask;
  uint32_t flags;
  void* request;
  union {
    SendCallback send;
    ReceiveCallback receive;
  } callback;
  uint64_t datatype;
  void* user_data;
  void* reply_buffer;
  MemoryType memory_type;
  void* recv_info;
  Memory* memh;
};

// Flags of ucp_am_send_nbx().
inline constexpr uint32_t kSendReply = 1 << 0;
inline constexpr uint32_t kSendEager = 1 << 1;
inline constexpr uint32_t kSendRendezvous = 1 << 2;
// Flag of ucp_ep_close_nbx(): ends the endpoint's requests.
inline constexpr uint32_t kCloseForce = 1 << 0;

struct ReceiveParam {
  static constexpr uint64_t kData = 1 << 16;
  static constexpr uint64_t kRendezvous = 1 << 17;
  uint64_t recv_attr;
  Endpoint* reply_ep;
};
using MessageCallback = Result (*)(void* argument, const void* header, size_t header_length,
                                   void* data, size_t length, const ReceiveParam* param);

struct HandlerParam {
  static constexpr uint64_t kId = 1 << 0;
  static constexpr uint64_t kFlags = 1 << 1;
  static constexpr uint64_t kCallback = 1 << 2;
  static constexpr uint64_t kArgument = 1 << 3;
  // Values of |flags|: one callback a message; data may be kept.
  static constexpr uint32_t kWholeMessage = 1 << 0;
  static constexpr uint32_t kPersistentData = 1 << 1;
  uint64_t field_mask;
  unsigned id;
  uint32_t flags;
  MessageCallback callback;
  void* argument;
};
static_assert(std::is_trivial_v<RequestParam> && std::is_trivial_v<HandlerParam>);

// Log messages. 0 to 2: fatal, error, warning; higher: what the user has asked UCX for.
enum class LogLevel : int { kFatal = 0, kError = 1, kWarning = 2 };
enum class LogNext : int { kStop = 0, kContinue = 1 };  // with the former handlers
using LogHandler = LogNext (*)(const char* file, unsigned line, const char* function,
                               LogLevel level, const void* component, const char* format,
                               va_list arguments);

// The functions, as members named as in the library without "ucp_".
struct Functions {
  void (*get_version)(unsigned* major, unsigned* minor, unsigned* release);
  Result (*config_read)(const char* prefix, const char* file, Config** out_config);
  Result (*config_modify)(Config* config, const char* name, const char* value);
  void (*config_release)(Config* config);
  Result (*init_version)(unsigned major, unsigned minor, const Params* params, const Config* config,
                         Context** out_context);
  void (*cleanup)(Context* context);
  Result (*worker_create)(Context* context, const WorkerParams* params, Worker** out_worker);
  void (*worker_destroy)(Worker* worker);
  Result (*worker_get_address)(Worker* worker, Address** out_address, size_t* out_size);
  void (*worker_release_address)(Worker* worker, Address* address);
  unsigned (*worker_progress)(Worker* worker);
  Result (*worker_get_efd)(Worker* worker, int* out_descriptor);
  Result (*worker_arm)(Worker* worker);
  Result (*worker_signal)(Worker* worker);
  Result (*worker_set_am_recv_handler)(Worker* worker, const HandlerParam* param);
  Result (*ep_create)(Worker* worker, const EndpointParams* params, Endpoint** out_endpoint);
  Pending (*ep_close_nbx)(Endpoint* endpoint, const RequestParam* param);
  Pending (*ep_flush_nbx)(Endpoint* endpoint, const RequestParam* param);
  Pending (*am_send_nbx)(Endpoint* endpoint, unsigned id, const void* header, size_t header_size,
                         const void* buffer, size_t count, const RequestParam* param);
  Pending (*am_recv_data_nbx)(Worker* worker, void* descriptor, void* buffer, size_t count,
                              const RequestParam* param);
  void (*am_data_release)(Worker* worker, void* data);
  Result (*request_check_status)(void* request);
  void (*request_free)(void* request);
  const char* (*status_string)(Result result);   // ucs_status_string
  void (*log_push_handler)(LogHandler handler);  // ucs_log_push_handler
};

}  // namespace keel::ucx

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_API_H_
