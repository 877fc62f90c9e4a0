// Keel for C++20, header-only over keel.h: objects that own what they hold, failures
// as exceptions, tensors and operator calls as values.
//
//   keel::Runtime runtime;
//   keel::Device gpu = keel::Device::find("vulkan:0");
//   keel::Stream stream(gpu);
//   auto x = keel::Buffer::of<float>(gpu, 1024);
//   stream.upload(x, host_x);
//   keel_tensor a = x.tensor<float>({32, 32});
//   keel::op(stream, KEEL_OP_MATMUL, {a, a, nullptr}, {c}, {0, 0, 1.0, 0.0});
//   stream.synchronize();
//
// Rules that hold for everything here, unless a comment says otherwise:
//  - What keel.h says of the C function behind a member holds for the member too:
//    threads, blocking, ownership.
//  - A failure is thrown as keel::Error. Libkeel itself throws nothing: the exception
//    begins and ends in the binary that includes this header.
//  - Objects that own a handle move and do not copy; one that was moved from owns
//    nothing, and only assigning to it or destroying it is of use. Destructors swallow
//    failures: whoever wants them synchronizes before.
//  - Everything is gone before the Runtime is.
#ifndef KEEL_KEEL_HPP_
#define KEEL_KEEL_HPP_

#include <keel/keel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <keel/float_types.hpp>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace keel {
// The version in the symbols keeps them apart from another version's in one process,
// and from libkeel's own classes.
inline namespace v0 {

// ---- failures --------------------------------------------------------------------

class Error : public std::runtime_error {
 public:
  Error(keel_status status, const std::string& text)
      : std::runtime_error(std::string(keel_status_name(status)) + ": " + text), status_(status) {}

  keel_status status() const noexcept { return status_; }

 private:
  keel_status status_;
};

// Throws the calling thread's last failure unless |status| is KEEL_OK.
inline void check(keel_status status) {
  if (status != KEEL_OK) throw Error(status, keel_last_error());
}

namespace api_detail {

// The answer of a query: true when done, false when not yet.
inline bool is_ready(keel_status status) {
  if (status == KEEL_NOT_READY) return false;
  check(status);
  return true;
}

// A text that |read| hands out by keel.h's rule: room in, size out.
template <typename Read>
std::string read_text(Read&& read) {
  std::string text(512, '\0');
  while (true) {
    uint64_t size = text.size();
    const keel_status status = read(text.data(), &size);
    if (status != KEEL_OUT_OF_RANGE || size <= text.size()) check(status);
    const bool complete = status == KEEL_OK;
    text.resize(complete ? size - 1 : size);  // |size| counts the terminator
    if (complete) return text;
  }
}

// Owns one handle of keel.h.
template <typename Handle, keel_status (*kDestroy)(Handle)>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~UniqueHandle() {
    if (handle_.id != 0) (void)kDestroy(handle_);
  }

  Handle get() const { return handle_; }

 private:
  Handle handle_{};
};

}  // namespace api_detail

// Deadlines are durations from now; this one stands for the process's default.
inline constexpr std::chrono::nanoseconds kDefaultTimeout{KEEL_TIMEOUT_DEFAULT};

// ---- process ---------------------------------------------------------------------

// Keel is up while this lives. One a process.
class Runtime {
 public:
  Runtime() { check(keel_init(nullptr)); }
  explicit Runtime(const keel_init_options& options) { check(keel_init(&options)); }
  Runtime(Runtime&& other) noexcept : owner_(std::exchange(other.owner_, false)) {}
  Runtime& operator=(Runtime&& other) noexcept {
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~Runtime() {
    if (owner_) (void)keel_shutdown();
  }

 private:
  bool owner_ = true;
};

// Writes a trace to |path| while it lives. Not thread-safe.
class Trace {
 public:
  explicit Trace(const std::string& path) { check(keel_trace_start(path.c_str())); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace() {
    if (writing_) (void)keel_trace_stop();
  }

  // Completes the file; KEEL_DATA_LOSS if not all is in it.
  void stop() {
    if (std::exchange(writing_, false)) check(keel_trace_stop());
  }

 private:
  bool writing_ = true;
};

// Problems that the validation layer has found so far.
inline uint64_t validation_count() {
  uint64_t count = 0;
  check(keel_validation_count(&count));
  return count;
}

// Every plugin that was looked at, also those that failed to load.
inline std::vector<keel_backend_info> backends() {
  uint32_t count = 0;
  check(keel_backend_count(&count));
  std::vector<keel_backend_info> all;
  for (uint32_t index = 0; index < count; ++index) {
    all.push_back(KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO));
    check(keel_backend_get(index, &all.back()));
  }
  return all;
}

// ---- devices ---------------------------------------------------------------------

struct MemoryUse {
  uint64_t free;   // bytes
  uint64_t total;  // bytes
};

// A device, by value; default-constructed it is the host. Analogue: torch::Device.
class Device {
 public:
  Device() = default;
  explicit Device(keel_device handle) : handle_(handle) {}

  // "backend:ordinal", or "backend" for its first; KEEL_NOT_FOUND lists what there is.
  static Device find(const std::string& name) {
    Device found;
    check(keel_device_find(name.c_str(), &found.handle_));
    return found;
  }
  // Opens all of them.
  static std::vector<Device> all() {
    uint32_t count = 0;
    check(keel_device_count(&count));
    std::vector<Device> devices(count);
    for (uint32_t index = 0; index < count; ++index) {
      check(keel_device_get(index, &devices[index].handle_));
    }
    return devices;
  }

  keel_device get() const { return handle_; }
  std::string name() const {
    std::array<char, 80> text{};
    check(keel_device_name(handle_, text.data(), text.size()));
    return text.data();
  }
  keel_device_info info() const {
    keel_device_info info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    check(keel_device_info_get(handle_, &info));
    return info;
  }
  // Nothing where the plugin cannot tell.
  std::optional<MemoryUse> memory_use() const {
    MemoryUse use{};
    const keel_status status = keel_device_memory_info(handle_, &use.free, &use.total);
    if (status == KEEL_UNSUPPORTED) return std::nullopt;
    check(status);
    return use;
  }
  // What Keel has allocated on it, and holds for later.
  keel_memory_stats memory_stats() const {
    keel_memory_stats stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    check(keel_memory_stats_get(handle_, &stats));
    return stats;
  }
  void reset_memory_peaks() const { check(keel_memory_stats_reset_peaks(handle_)); }
  // Every segment and block as JSON text.
  std::string memory_snapshot() const {
    return api_detail::read_text(
        [this](char* text, uint64_t* size) { return keel_memory_snapshot(handle_, text, size); });
  }
  // Gives what is free and idle back to the device.
  void trim_memory() const { check(keel_memory_trim(handle_)); }
  // The physical chip that it is a way into.
  uint32_t chip() const {
    uint32_t number = 0;
    check(keel_device_chip(handle_, &number));
    return number;
  }
  void synchronize(std::chrono::nanoseconds timeout = kDefaultTimeout) const {
    check(keel_device_synchronize(handle_, timeout.count()));
  }

  friend bool operator==(const Device& a, const Device& b) { return a.handle_.id == b.handle_.id; }

 private:
  keel_device handle_{};
};

// The machine as JSON text; |synthetic|: one described in hwloc's words instead.
inline std::string topology(const char* synthetic = nullptr) {
  return api_detail::read_text(
      [&](char* text, uint64_t* size) { return keel_topology_get(synthetic, text, size); });
}

// ---- tensors ---------------------------------------------------------------------

// The dtype of a C++ element type.
template <typename Element>
inline constexpr keel_dtype dtype_of = KEEL_DTYPE_INVALID;
template <>
inline constexpr keel_dtype dtype_of<int8_t> = KEEL_INT8;
template <>
inline constexpr keel_dtype dtype_of<int16_t> = KEEL_INT16;
template <>
inline constexpr keel_dtype dtype_of<int32_t> = KEEL_INT32;
template <>
inline constexpr keel_dtype dtype_of<int64_t> = KEEL_INT64;
template <>
inline constexpr keel_dtype dtype_of<uint8_t> = KEEL_UINT8;
template <>
inline constexpr keel_dtype dtype_of<uint16_t> = KEEL_UINT16;
template <>
inline constexpr keel_dtype dtype_of<uint32_t> = KEEL_UINT32;
template <>
inline constexpr keel_dtype dtype_of<uint64_t> = KEEL_UINT64;
template <>
inline constexpr keel_dtype dtype_of<float> = KEEL_FLOAT32;
template <>
inline constexpr keel_dtype dtype_of<double> = KEEL_FLOAT64;
template <>
inline constexpr keel_dtype dtype_of<float16_t> = KEEL_FLOAT16;
template <>
inline constexpr keel_dtype dtype_of<bfloat16_t> = KEEL_BFLOAT16;
template <>
inline constexpr keel_dtype dtype_of<float8_e4m3_t> = KEEL_FLOAT8_E4M3FN;
template <>
inline constexpr keel_dtype dtype_of<float8_e5m2_t> = KEEL_FLOAT8_E5M2;

template <typename Type>
concept Element = dtype_of<Type>
!= KEEL_DTYPE_INVALID;

// A view of |shape| over device memory at |data|, which it borrows. |strides| are in
// elements; none: dense, row-major.
inline keel_tensor make_tensor(void* data, keel_dtype dtype, std::span<const int64_t> shape,
                               std::span<const int64_t> strides = {}) {
  if (shape.size() > KEEL_MAX_RANK) {
    throw Error(KEEL_INVALID_ARGUMENT, "tensor: rank " + std::to_string(shape.size()) +
                                           " is above " + std::to_string(KEEL_MAX_RANK));
  }
  if (!strides.empty() && strides.size() != shape.size()) {
    throw Error(KEEL_INVALID_ARGUMENT, "tensor: " + std::to_string(strides.size()) +
                                           " strides for rank " + std::to_string(shape.size()));
  }
  keel_tensor tensor = {};
  tensor.size = sizeof(tensor);
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(shape.size());
  tensor.data = data;
  int64_t dense = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    tensor.shape[axis] = shape[axis];
    tensor.strides[axis] = strides.empty() ? dense : strides[axis];
    dense *= shape[axis];
  }
  return tensor;
}
inline keel_tensor make_tensor(void* data, keel_dtype dtype, std::initializer_list<int64_t> shape,
                               std::initializer_list<int64_t> strides = {}) {
  return make_tensor(data, dtype, std::span(shape.begin(), shape.size()),
                     std::span(strides.begin(), strides.size()));
}

// ---- memory ----------------------------------------------------------------------

class Stream;

// One allocation of |size| bytes, not zeroed. Freeing does not wait: the memory is used
// again once the work enqueued before is done. Analogue: cudaMalloc and its cudaFree.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, keel_memory_kind kind, uint64_t size) : device_(device), size_(size) {
    check(keel_alloc(device.get(), kind, size, &data_));
  }
  // Device memory for work enqueued on |stream| from now on. The buffer's end frees it in
  // the stream's order, without a wait, or as any other memory if the stream is gone.
  Buffer(const Stream& stream, uint64_t size);
  // Room for |count| elements.
  template <Element Type>
  static Buffer of(Device device, uint64_t count, keel_memory_kind kind = KEEL_MEMORY_DEVICE) {
    return Buffer(device, kind, count * sizeof(Type));
  }
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        stream_(other.stream_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ == nullptr) return;
    if (stream_.id != 0 && keel_free_on_stream(stream_, data_) == KEEL_OK) return;
    (void)keel_free(device_.get(), data_);
  }

  Device device() const { return device_; }
  uint64_t size() const { return size_; }
  // An address of the device; the host may use it where the memory is pinned or managed.
  void* data() const { return data_; }
  // Where the host finds the same memory; NULL where it cannot.
  void* host_alias() const {
    keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    check(keel_memory_find(device_.get(), data_, &info));
    return info.host_alias;
  }

  // The beginning of the buffer as a dense tensor.
  keel_tensor tensor(keel_dtype dtype, std::initializer_list<int64_t> shape) const {
    return make_tensor(data_, dtype, shape);
  }
  template <Element Type>
  keel_tensor tensor(std::initializer_list<int64_t> shape) const {
    return make_tensor(data_, dtype_of<Type>, shape);
  }

 private:
  Device device_;
  keel_stream stream_{};  // that it is freed on; id 0: on none
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

// ---- streams, events, gates ------------------------------------------------------

// A point in a stream. Analogue: cudaEvent_t.
class Event {
 public:
  // |flags|: KEEL_EVENT_TIMING.
  explicit Event(uint32_t flags = 0) {
    keel_event event;
    check(keel_event_create(flags, &event));
    handle_ = Handle(event);
  }

  keel_event get() const { return handle_.get(); }
  void record(const Stream& stream);
  bool is_done() const { return api_detail::is_ready(keel_event_query(get())); }
  void wait(std::chrono::nanoseconds timeout = kDefaultTimeout) const {
    check(keel_event_wait(get(), timeout.count()));
  }
  // From |start| to this event.
  std::chrono::nanoseconds elapsed_since(const Event& start) const {
    uint64_t nanoseconds = 0;
    check(keel_event_elapsed(start.get(), get(), &nanoseconds));
    return std::chrono::nanoseconds(nanoseconds);
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_event, keel_event_destroy>;
  Handle handle_;
};

// What streams wait for until the host opens it, once; a closed one that is destroyed
// fails them with KEEL_CANCELLED.
class Gate {
 public:
  Gate() {
    keel_gate gate;
    check(keel_gate_create(&gate));
    handle_ = Handle(gate);
  }

  keel_gate get() const { return handle_.get(); }
  void open() { check(keel_gate_open(get(), KEEL_OK, nullptr)); }
  // The streams behind it fail with |status|.
  void fail(keel_status status, const std::string& text) {
    check(keel_gate_open(get(), status, text.c_str()));
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_gate, keel_gate_destroy>;
  Handle handle_;
};

// An in-order queue of one device. Destroying it waits for its work.
// Analogue: cudaStream_t.
class Stream {
 public:
  // |priority|: 0 normal, negative more urgent.
  explicit Stream(Device device, int32_t priority = 0) : device_(device) {
    keel_stream stream;
    check(keel_stream_create(device.get(), priority, &stream));
    handle_ = Handle(stream);
  }

  keel_stream get() const { return handle_.get(); }
  Device device() const { return device_; }

  bool is_done() const { return api_detail::is_ready(keel_stream_query(get())); }
  void synchronize(std::chrono::nanoseconds timeout = kDefaultTimeout) const {
    check(keel_stream_synchronize(get(), timeout.count()));
  }
  // Makes a failed stream usable again.
  void recover(std::chrono::nanoseconds timeout = kDefaultTimeout) {
    check(keel_stream_recover(get(), timeout.count()));
  }
  void wait(const Event& event) { check(keel_stream_wait_event(get(), event.get())); }
  void wait(const Gate& gate) { check(keel_stream_wait_gate(get(), gate.get())); }

  // Enqueues copies. The memory stays valid until they are done, which is why the host
  // side must be an lvalue or a view.
  void copy(Device destination_device, void* destination, Device source_device, const void* source,
            uint64_t size) {
    check(
        keel_copy(get(), destination_device.get(), destination, source_device.get(), source, size));
  }
  // All of |source| to the beginning of |destination|; any two devices.
  void copy(const Buffer& destination, const Buffer& source) {
    copy(destination.device(), destination.data(), source.device(), source.data(), source.size());
  }
  template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range>
  void upload(const Buffer& destination, Range&& source) {
    const auto bytes = std::as_bytes(std::span(source));
    copy(destination.device(), destination.data(), Device(), bytes.data(), bytes.size());
  }
  // As many elements as |destination| has.
  template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range>
  void download(Range&& destination, const Buffer& source) {
    const auto bytes = std::as_writable_bytes(std::span(destination));
    copy(Device(), bytes.data(), source.device(), source.data(), bytes.size());
  }
  template <Element Type>
  void fill(const Buffer& destination, Type value) {
    check(keel_fill(get(), destination.data(), &value, sizeof(value), destination.size()));
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_stream, keel_stream_destroy>;
  Device device_;
  Handle handle_;
};

inline Buffer::Buffer(const Stream& stream, uint64_t size)
    : device_(stream.device()), stream_(stream.get()), size_(size) {
  check(keel_alloc_on_stream(stream_, size, &data_));
}

inline void Event::record(const Stream& stream) {
  check(keel_event_record(get(), stream.get()));
}

// ---- kernels of the caller -------------------------------------------------------

// Blocks of a grid, or threads of a block. Analogue: dim3.
struct Extent {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

// One kernel of a module, by value; invalid once the module is gone.
class Kernel {
 public:
  explicit Kernel(keel_kernel handle) : handle_(handle) {}

  keel_kernel get() const { return handle_; }
  // Enqueues it with copies of |arguments|, in the types that the kernel reads: device
  // memory as a pointer, numbers exactly as wide as they are there.
  template <typename... Arguments>
  requires(std::is_trivially_copyable_v<Arguments>&&...) void launch(
      const Stream& stream, Extent grid, Extent block, const Arguments&... arguments) const {
    // One more than there are: an array has at least one.
    const void* const pointers[] = {&arguments..., nullptr};
    const uint32_t sizes[] = {static_cast<uint32_t>(sizeof(arguments))..., 0};
    keel_launch launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
    std::ranges::copy(std::array{grid.x, grid.y, grid.z}, launch.grid);
    std::ranges::copy(std::array{block.x, block.y, block.z}, launch.block);
    launch.argument_count = sizeof...(arguments);
    launch.arguments = pointers;
    launch.argument_sizes = sizes;
    check(keel_kernel_launch(stream.get(), handle_, &launch));
  }

 private:
  keel_kernel handle_;
};

// A binary on a device; launches that were enqueued outlive it. Analogue: CUmodule.
class Module {
 public:
  // KEEL_UNSUPPORTED where the device takes no such format.
  Module(Device device, keel_binary_format format, std::span<const std::byte> binary) {
    keel_module module;
    check(keel_module_load(device.get(), format, binary.data(), binary.size(), &module));
    handle_ = Handle(module);
  }

  keel_module get() const { return handle_.get(); }
  // KEEL_NOT_FOUND when there is none of that name.
  Kernel kernel(const std::string& name) const {
    keel_kernel kernel;
    check(keel_kernel_find(get(), name.c_str(), &kernel));
    return Kernel(kernel);
  }

 private:
  using Handle = api_detail::UniqueHandle<keel_module, keel_module_unload>;
  Handle handle_;
};

// ---- operators -------------------------------------------------------------------

// One tensor of a call, borrowed; nullptr for an optional input that is left out.
class Operand {
 public:
  Operand(const keel_tensor& tensor) : tensor_(&tensor) {}
  Operand(std::nullptr_t) {}

  const keel_tensor* get() const { return tensor_; }

 private:
  const keel_tensor* tensor_ = nullptr;
};

// A number as it was written; the call turns it into the kind that the operator reads.
class Attribute {
 public:
  template <std::integral Integer>
  Attribute(Integer value) : is_float_(false) {
    value_.i = static_cast<int64_t>(value);
  }
  Attribute(double value) : is_float_(true) { value_.f = value; }

  keel_attribute as_given() const { return value_; }
  keel_attribute as_float() const {
    keel_attribute value = value_;
    if (!is_float_) value.f = static_cast<double>(value_.i);
    return value;
  }
  // KEEL_INVALID_ARGUMENT for a fraction, or one that int64 cannot hold.
  keel_attribute as_integer() const {
    if (!is_float_) return value_;
    if (std::trunc(value_.f) != value_.f || std::abs(value_.f) >= 0x1p63) {
      throw Error(KEEL_INVALID_ARGUMENT, "attribute " + std::to_string(value_.f) +
                                             " is given where the operator reads an integer");
    }
    keel_attribute value;
    value.i = static_cast<int64_t>(value_.f);
    return value;
  }

 private:
  keel_attribute value_;
  bool is_float_;
};

namespace api_detail {

// Bit i: attribute i of the operator is a float. Written as 1 instead of 1.0, a float
// attribute would otherwise be read as 5e-324: the union has no tag.
constexpr uint32_t float_attributes(keel_op_id op) {
  switch (op) {
    case KEEL_OP_FILL:
    case KEEL_OP_SCALE:
    case KEEL_OP_AXPY:
    case KEEL_OP_CROSS_ENTROPY_BACKWARD:
      return 0b1;
    case KEEL_OP_MATMUL:
      return 0b1100;
    case KEEL_OP_ADAMW:
      return 0b1011111;
    default:
      return 0;
  }
}

}  // namespace api_detail

// One call of an operator of docs/operators.md, with tensors and attributes in arrays of
// its own: build it once, run it often, allocate never. Not thread-safe.
class OpCall {
 public:
  static constexpr size_t kMaxInputs = 8;
  static constexpr size_t kMaxOutputs = 8;
  static constexpr size_t kMaxAttributes = 16;

  // Attributes are all of them, in the order of the operator's table. Custom operators
  // get theirs as they are written: 1 is an integer, 1.0 a float.
  OpCall(keel_op_id op, std::initializer_list<Operand> inputs,
         std::initializer_list<Operand> outputs, std::initializer_list<Attribute> attributes = {})
      : OpCall(op, std::span(inputs.begin(), inputs.size()),
               std::span(outputs.begin(), outputs.size()),
               std::span(attributes.begin(), attributes.size())) {}
  OpCall(keel_op_id op, std::span<const Operand> inputs, std::span<const Operand> outputs,
         std::span<const Attribute> attributes) {
    if (inputs.size() > kMaxInputs || outputs.size() > kMaxOutputs ||
        attributes.size() > kMaxAttributes) {
      throw Error(KEEL_INVALID_ARGUMENT,
                  "operator call: more than 8 inputs, 8 outputs or 16 "
                  "attributes");
    }
    take(inputs, input_tensors_, input_pointers_);
    take(outputs, output_tensors_, output_pointers_);
    const uint32_t floats = api_detail::float_attributes(op);
    for (size_t i = 0; i < attributes.size(); ++i) {
      attributes_[i] = op >= KEEL_OP_CUSTOM_BASE ? attributes.data()[i].as_given()
                       : (floats >> i & 1u) != 0 ? attributes.data()[i].as_float()
                                                 : attributes.data()[i].as_integer();
    }
    call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call_.op = op;
    call_.input_count = static_cast<uint32_t>(inputs.size());
    call_.output_count = static_cast<uint32_t>(outputs.size());
    call_.attribute_count = static_cast<uint32_t>(attributes.size());
    call_.inputs = input_pointers_.data();
    call_.outputs = output_pointers_.data();
    call_.attributes = attributes_.data();
  }
  OpCall(const OpCall&) = delete;  // it points into itself
  OpCall& operator=(const OpCall&) = delete;

  const keel_op_call& get() const { return call_; }
  // For another run on other memory; |index| as given, and not of one left out.
  keel_tensor& input(size_t index) { return input_tensors_[index]; }
  keel_tensor& output(size_t index) { return output_tensors_[index]; }
  keel_attribute& attribute(size_t index) { return attributes_[index]; }

  // Enqueues it.
  void run(const Stream& stream) const { check(keel_op_run(stream.get(), &call_)); }
  // What would run it; KEEL_UNSUPPORTED where nothing can.
  keel_op_plan plan(Device device) const {
    keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
    check(keel_op_plan_get(device.get(), &call_, &plan));
    return plan;
  }
  // All candidates, one a line, best first.
  std::string explain(Device device) const {
    return api_detail::read_text([&](char* text, uint64_t* size) {
      return keel_op_explain(device.get(), &call_, text, size);
    });
  }

 private:
  template <size_t kCount>
  static void take(std::span<const Operand> operands, std::array<keel_tensor, kCount>& tensors,
                   std::array<const keel_tensor*, kCount>& pointers) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const keel_tensor* given = operands.data()[i].get();
      if (given != nullptr) tensors[i] = *given;
      pointers[i] = given == nullptr ? nullptr : &tensors[i];
    }
  }

  // Uninitialised beyond the counts: 16 tensors are 2.6 KiB, which nobody reads.
  std::array<keel_tensor, kMaxInputs> input_tensors_;
  std::array<keel_tensor, kMaxOutputs> output_tensors_;
  std::array<const keel_tensor*, kMaxInputs> input_pointers_;
  std::array<const keel_tensor*, kMaxOutputs> output_pointers_;
  std::array<keel_attribute, kMaxAttributes> attributes_;
  keel_op_call call_;
};

// Builds a call and runs it.
inline void op(const Stream& stream, keel_op_id op, std::initializer_list<Operand> inputs,
               std::initializer_list<Operand> outputs,
               std::initializer_list<Attribute> attributes = {}) {
  OpCall(op, inputs, outputs, attributes).run(stream);
}

// ---- collectives -----------------------------------------------------------------

// The ranks of a communicator over devices of this process. Every member function with a
// |rank| enqueues that rank's part on a stream of its device; one thread may call for
// all of them. Analogue: the array that ncclCommInitAll fills.
class Communicator {
 public:
  explicit Communicator(std::span<const Device> devices,
                        const keel_comm_options* options = nullptr) {
    std::vector<keel_device> handles;
    for (const Device& device : devices) handles.push_back(device.get());
    std::vector<keel_comm> comms(devices.size());
    ranks_.reserve(comms.size());
    check(keel_comm_init_all(handles.data(), static_cast<uint32_t>(handles.size()), options,
                             comms.data()));
    for (keel_comm comm : comms) ranks_.emplace_back(comm);
  }

  Communicator(Communicator&&) = default;
  Communicator& operator=(Communicator&&) = default;

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  keel_comm get(uint32_t rank) const { return ranks_.at(rank).get(); }

  void all_reduce(uint32_t rank, const void* send, void* receive, uint64_t count, keel_dtype dtype,
                  keel_reduction reduction, const Stream& stream) {
    check(keel_all_reduce(get(rank), send, receive, count, dtype, reduction, stream.get()));
  }
  void broadcast(uint32_t rank, const void* send, void* receive, uint64_t count, keel_dtype dtype,
                 uint32_t root, const Stream& stream) {
    check(keel_broadcast(get(rank), send, receive, count, dtype, root, stream.get()));
  }
  void all_gather(uint32_t rank, const void* send, void* receive, uint64_t count, keel_dtype dtype,
                  const Stream& stream) {
    check(keel_all_gather(get(rank), send, receive, count, dtype, stream.get()));
  }
  void reduce_scatter(uint32_t rank, const void* send, void* receive, uint64_t count,
                      keel_dtype dtype, keel_reduction reduction, const Stream& stream) {
    check(keel_reduce_scatter(get(rank), send, receive, count, dtype, reduction, stream.get()));
  }
  void barrier(uint32_t rank, const Stream& stream) {
    check(keel_barrier(get(rank), stream.get()));
  }

  // Fails everything in flight and everything later.
  void abort() { check(keel_comm_abort(get(0))); }
  // Throws why the communicator failed, if it has.
  void check_async_error() const { check(keel_comm_async_error(get(0))); }
  // The path of each rank and the sizes in use, as JSON.
  std::string explain() const {
    return api_detail::read_text(
        [&](char* text, uint64_t* size) { return keel_comm_explain(get(0), text, size); });
  }
  keel_comm_stats stats(uint32_t rank) const {
    keel_comm_stats stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    check(keel_comm_stats_get(get(rank), &stats));
    return stats;
  }

 private:
  std::vector<api_detail::UniqueHandle<keel_comm, keel_comm_destroy>> ranks_;
};

}  // namespace v0
}  // namespace keel

#if __has_include(<dlpack/dlpack.h>)
#include <keel/dlpack.hpp>
#endif

#endif  // KEEL_KEEL_HPP_
