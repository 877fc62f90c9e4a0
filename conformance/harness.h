// SPDX-License-Identifier: Apache-2.0
// What the suites are written with: Keel's objects with an end of their own, checks that
// stop a case, and data to compare.
#ifndef KEEL_CONFORMANCE_HARNESS_H_
#define KEEL_CONFORMANCE_HARNESS_H_

#include <keel/keel.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/catalogue.h"
#include "conformance/observation.h"

namespace keel::conformance {

// Ends the running case. They stay inside the worker: no exception crosses a library.
struct CaseFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct CaseUnsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Fails the case with |what|.
[[noreturn]] void fail_case(const std::string& what, Where where = Where::current());
// Fails the case unless |holds|.
void check(bool holds, const std::string& what, Where where = Where::current());
// Fails the case, with keel_last_error(), unless |status|, which is observed, is |wanted|.
void must_be(keel_status wanted, keel_status status, std::string_view what,
             Where where = Where::current());
// The same for KEEL_OK.
inline void must(keel_status status, std::string_view what, Where where = Where::current()) {
  must_be(KEEL_OK, status, what, where);
}
// The same with what |last_text|() says, for calls that Keel does not make.
void expect_status(keel_status wanted, keel_status status, std::string_view what,
                   const char* (*last_text)(), const Where& where);
// Only for what was not claimed, or a machine that lacks something.
[[noreturn]] void unsupported(const std::string& reason);
// Adds |text| to what the report says of the case, whatever comes of it.
void note(const std::string& text);
// The notes of this thread since it was asked last, a line each.
std::string take_notes();
// Runs the body of |each|; CaseUnsupported where the device does not make its claims.
void run_body(const Case& each, const Context& context);
// Calls |query| until it answers anything but KEEL_NOT_READY, for |wait_ns| at most. The last
// answer alone is observed.
keel_status poll(const std::function<keel_status()>& query, int64_t wait_ns,
                 Where where = Where::current());
// The same for any thread and for destructors: no answer is observed. KEEL_OK in the runner.
keel_status poll_unobserved(const std::function<keel_status()>& query, int64_t wait_ns);
// Runs |body|(0), |body|(1), ... on a thread each, in the worker, and waits for all. They check
// what only the worker can see; what the runner is to judge they leave to be observed afterwards.
// The first that fails fails the case.
void run_threads(uint32_t count, const std::function<void(uint32_t index)>& body);

// ---- objects: made or the case fails, destroyed in every case -----------------------

class Buffer {
 public:
  Buffer(keel_device device, keel_memory_kind kind, uint64_t size, Where where = Where::current());
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  std::byte* at(uint64_t offset) const { return pointer_ + offset; }
  std::byte* data() const { return pointer_; }
  uint64_t size() const { return size_; }
  // Of pinned memory, which the host may read and write.
  std::span<std::byte> host() const { return {pointer_, size_}; }

 private:
  keel_device device_;
  std::byte* pointer_ = nullptr;
  std::byte* stands_in_ = nullptr;  // of the host, in the runner
  uint64_t size_;
};

class Stream {
 public:
  Stream(const Context& context, keel_device device, int32_t priority = 0,
         Where where = Where::current());
  explicit Stream(const Context& context, Where where = Where::current())
      : Stream(context, context.device(), /*priority=*/0, where) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;

  keel_stream get() const { return stream_; }
  keel_device device() const { return device_; }
  // Waits until all is done, or the case fails.
  void synchronize(Where where = Where::current()) const;
  // Copies with the stream's own device; |size| may be 0.
  void upload(std::byte* device, std::span<const std::byte> host,
              Where where = Where::current()) const;
  void download(std::span<std::byte> host, const std::byte* device,
                Where where = Where::current()) const;
  void copy(std::byte* destination, const std::byte* source, uint64_t size,
            Where where = Where::current()) const;
  void fill(std::byte* destination, uint32_t word, uint64_t size,
            Where where = Where::current()) const;

 private:
  keel_device device_;
  int64_t wait_ns_;
  keel_stream stream_ = {};
};

class Event {
 public:
  explicit Event(uint32_t flags = 0, Where where = Where::current());
  ~Event() { keel_event_destroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  keel_event get() const { return event_; }
  void record(const Stream& stream, Where where = Where::current()) const;

 private:
  keel_event event_ = {};
};

class Gate {
 public:
  explicit Gate(Where where = Where::current());
  ~Gate() { keel_gate_destroy(gate_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  keel_gate get() const { return gate_; }
  void open(keel_status status = KEEL_OK, Where where = Where::current()) const;

 private:
  keel_gate gate_ = {};
};

// ---- data -----------------------------------------------------------------------------

// |size| bytes that depend on the run's seed, the case and |tensor| alone.
std::vector<std::byte> random_bytes(const Context& context, uint32_t tensor, uint64_t size);
// Fails the case where the two differ: first place, values, how many bytes, and whether
// it is the tail alone. |got| is observed.
void check_equal(std::span<const std::byte> got, std::span<const std::byte> wanted,
                 const std::string& what, Where where = Where::current());
// The same of bytes that were observed before, or made up.
void compare(std::span<const std::byte> got, std::span<const std::byte> wanted,
             const std::string& what, Where where = Where::current());
// |word| over and over, |size| bytes of it.
std::vector<std::byte> words(uint32_t word, uint64_t size);
// check_equal() against words().
void check_filled(std::span<const std::byte> got, uint32_t word, const std::string& what,
                  Where where = Where::current());
// What a red zone is made of.
inline constexpr std::byte kRedZone{0xb7};

// Enqueues work on |stream| that keeps a fast device busy for tens of milliseconds and
// leaves |word| in all of |buffer|: fills with other words first, |rounds| of them.
void keep_busy(const Stream& stream, const Buffer& buffer, uint32_t word, uint32_t rounds);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_HARNESS_H_
