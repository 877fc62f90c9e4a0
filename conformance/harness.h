// SPDX-License-Identifier: Apache-2.0
// Building blocks of the suites: RAII wrappers of Keel's objects, checks that stop a case, and data
// to compare.
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

// Thrown to end the running case. These exceptions stay inside the worker; no exception crosses a
// library.
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
// Observes |status| and fails the case with keel_last_error() unless |status| equals |wanted|.
void must_be(keel_status wanted, keel_status status, std::string_view what,
             Where where = Where::current());
// must_be() with KEEL_OK.
inline void must(keel_status status, std::string_view what, Where where = Where::current()) {
  must_be(KEEL_OK, status, what, where);
}
// must_be() with the text of |last_text|(), for calls that bypass Keel.
void expect_status(keel_status wanted, keel_status status, std::string_view what,
                   const char* (*last_text)(), const Where& where);
// Ends the case as unsupported. Use only for a capability that the device lacks or for a resource
// that the machine lacks.
[[noreturn]] void unsupported(const std::string& reason);
// Adds |text| to the case's report, whatever the outcome.
void note(const std::string& text);
// Returns and clears this thread's notes, one per line.
std::string take_notes();
// Runs the body of |each|; throws CaseUnsupported if the device lacks a required capability.
void run_body(const Case& each, const Context& context);
// Calls |query| until it returns anything but KEEL_NOT_READY, for at most |wait_ns|. Only the last
// status is observed.
keel_status poll(const std::function<keel_status()>& query, int64_t wait_ns,
                 Where where = Where::current());
// poll() for any thread and for destructors: no status is observed. Returns KEEL_OK in the runner.
keel_status poll_unobserved(const std::function<keel_status()>& query, int64_t wait_ns);
// In the worker, runs |body|(0), |body|(1), ... on one thread each and joins all threads. Bodies
// check only facts visible in the worker alone; the caller observes afterwards whatever the runner
// must judge. The first failing body fails the case.
void run_threads(uint32_t count, const std::function<void(uint32_t index)>& body);

// ---- objects: a failed creation fails the case; destructors always run --------------

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
  // The bytes of pinned memory, which the host may read and write.
  std::span<std::byte> host() const { return {pointer_, size_}; }

 private:
  keel_device device_;
  std::byte* pointer_ = nullptr;
  std::byte* stands_in_ = nullptr;  // host memory that replaces |pointer_| in the runner
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
  // Waits until all work is done; a failure or timeout fails the case.
  void synchronize(Where where = Where::current()) const;
  // Copies within the stream's own device and to and from the host; |size| may be 0.
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

// Returns |size| bytes that depend only on the run's seed, the case and |tensor|.
std::vector<std::byte> random_bytes(const Context& context, uint32_t tensor, uint64_t size);
// Observes |got| and fails the case if it differs from |wanted|. The message gives the first
// offset, both values, the number of differing bytes, and whether only the tail differs.
void check_equal(std::span<const std::byte> got, std::span<const std::byte> wanted,
                 const std::string& what, Where where = Where::current());
// check_equal() for bytes that were already observed or computed.
void compare(std::span<const std::byte> got, std::span<const std::byte> wanted,
             const std::string& what, Where where = Where::current());
// Returns |size| bytes filled with |word|.
std::vector<std::byte> words(uint32_t word, uint64_t size);
// check_equal() against words().
void check_filled(std::span<const std::byte> got, uint32_t word, const std::string& what,
                  Where where = Where::current());
// The byte that fills red zones.
inline constexpr std::byte kRedZone{0xb7};

// Enqueues work on |stream| that keeps a fast device busy for tens of milliseconds: |rounds| fills
// of |buffer| with different words, of which the last leaves |word| everywhere.
void keep_busy(const Stream& stream, const Buffer& buffer, uint32_t word, uint32_t rounds);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_HARNESS_H_
