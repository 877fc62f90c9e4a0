// SPDX-License-Identifier: Apache-2.0
/* Keel, the framework side: devices, streams, events, gates, memory, operators
 * and collectives of every chip behind one C interface.
 *
 *   keel_init(NULL);
 *   keel_device gpu;
 *   keel_device_find("vulkan:0", &gpu);
 *   keel_stream stream;
 *   keel_stream_create(gpu, 0, &stream);
 *   void* x;
 *   keel_alloc(gpu, KEEL_MEMORY_DEVICE, 1024, &x);
 *   keel_copy(stream, gpu, x, KEEL_HOST, host_x, 1024);
 *   keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT);
 *
 * Rules that hold for every function here, unless its comment says otherwise:
 *  - Threads: any thread may call. Calls on one stream are serialised by Keel in
 *    some order; whoever cares about the order calls from one thread.
 *  - Result: KEEL_OK, or a failure that changed nothing and left every handle
 *    usable; keel_last_error() then names the argument, the plugin or the rank.
 *  - Blocking: only functions with a |timeout_ns| wait for a device, and never
 *    past it; keel_stream_destroy, keel_comm_destroy and keel_shutdown wait up to
 *    the default deadline; those that create a communicator wait for its other ranks.
 *    keel_shutdown ends the waits of all other threads with KEEL_ABORTED.
 *  - Handles are generation-tagged values: one that was destroyed, or never was,
 *    gives KEEL_INVALID_HANDLE. A handle of 0 is no object.
 *  - Structs with a keel_header are filled in by the caller: size and type as a
 *    minimum (KEEL_STRUCT_INIT). |out_*| parameters are written on success only.
 *  - After fork the child gets KEEL_FORKED from everything; it may exec.
 */
#ifndef KEEL_KEEL_H_
#define KEEL_KEEL_H_

#include <keel/abi.h> /* status, dtype, tensor: the vocabulary both sides share */

#ifdef __cplusplus
extern "C" {
#endif

#define KEEL_VERSION_MAJOR 0
#define KEEL_VERSION_MINOR 1
#define KEEL_VERSION_PATCH 0

#define KEEL_API KEEL_EXPORT

/* Sets size and type of a struct with a keel_header, and zeroes the rest:
 *   keel_device_info info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO); */
#ifdef __cplusplus
extern "C++" {
template <typename Struct>
Struct keel_struct_init(uint32_t type) {
  Struct value{};
  value.header.size = sizeof(Struct);
  value.header.type = type;
  return value;
}
}
#define KEEL_STRUCT_INIT(struct_type, type_code) keel_struct_init<struct_type>(type_code)
#else
#define KEEL_STRUCT_INIT(struct_type, type_code)                            \
  {                                                                         \
    .header = {(uint32_t)sizeof(struct_type), (uint32_t)(type_code), NULL } \
  }
#endif

/* Handles. Values, not pointers: copy them freely. */
typedef struct keel_device {
  uint64_t id;
} keel_device;
typedef struct keel_stream {
  uint64_t id;
} keel_stream;
typedef struct keel_event {
  uint64_t id;
} keel_event;
typedef struct keel_gate {
  uint64_t id;
} keel_gate;
typedef struct keel_comm {
  uint64_t id;
} keel_comm;
typedef struct keel_module {
  uint64_t id;
} keel_module;
typedef struct keel_kernel {
  uint64_t id;
} keel_kernel;

/* In a copy, the host rather than a device. */
#ifdef __cplusplus
#define KEEL_HOST (keel_device{0})
#else
#define KEEL_HOST ((keel_device){0})
#endif

/* The deadline set by keel_init (10 minutes unless set; KEEL_TIMEOUT seconds in
 * the environment). There is no "forever". */
#define KEEL_TIMEOUT_DEFAULT ((int64_t)-1)

/* ---- errors and logs ---------------------------------------------------- */

/* "KEEL_TIMED_OUT"; "KEEL_UNKNOWN" for a number that is none. Static. */
KEEL_API const char* keel_status_name(keel_status status);
/* Text of the calling thread's last failure; valid until its next call. */
KEEL_API const char* keel_last_error(void);
/* (major << 16) | (minor << 8) | patch of the library that runs. */
KEEL_API uint32_t keel_version(void);

typedef void (*keel_log_fn)(void* user, keel_log_level level, const char* text);
/* Messages of |level| and above go to |fn| from any thread, NULL: to stderr.
 * Before it is called: warnings and errors, or KEEL_LOG=trace|debug|info|... */
KEEL_API keel_status keel_set_log(keel_log_level level, keel_log_fn fn, void* user);

/* ---- process ------------------------------------------------------------ */

typedef struct keel_init_options {
  keel_header header;
  /* Where plugins (libkeel_*.so) are looked for; absolute. NULL: $KEEL_PLUGIN_PATH,
   * else keel/plugins beside libkeel.so. */
  const char* plugin_folder;
  /* Comma-separated plugin names to load, "cpu,vulkan"; NULL: $KEEL_BACKENDS, else all;
   * "" loads none. */
  const char* backends;
  /* Deadline that KEEL_TIMEOUT_DEFAULT stands for; 0: $KEEL_TIMEOUT, else 600 s. */
  int64_t default_timeout_ns;
  /* 1: the validation layer (docs/operations.md) checks every call on its way to the
   * plugins, looks for races between streams and remembers where each handle was
   * made; 0: only if KEEL_VALIDATE=1. */
  uint32_t validate;
  uint32_t reserved;
} keel_init_options;

/* Loads the plugins and finds their devices. A plugin that fails to load is
 * logged, listed by keel_backend_get with the reason, and harms no other.
 * NULL: defaults. KEEL_ALREADY_EXISTS when called twice. */
KEEL_API keel_status keel_init(const keel_init_options* options);
/* Ends Keel for all threads: calls that wait return KEEL_ABORTED within 0.1 s, and new ones get
 * KEEL_FAILED_PRECONDITION. Once no other thread is inside Keel, every object that is left is
 * destroyed, with a warning that counts them. KEEL_TIMED_OUT where a thread is still inside at the
 * default deadline: the text names its call, nothing was destroyed, and the next keel_shutdown goes
 * on. KEEL_FAILED_PRECONDITION within a function that Keel has called, such as a log function. */
KEEL_API keel_status keel_shutdown(void);

/* Loads one plugin file more: |path| absolute, file and folder owned by root or
 * the user and not writable by others. |settings| may be NULL. |sha256| NULL, or
 * 64 hex digits that the file must match: the library is then loaded from a sealed
 * copy in memory whose digest was checked, so that replacing or modifying the file
 * during the call cannot run other code. The digest covers this file alone, not the
 * libraries it needs; libraries that it opens itself by a bare name are not looked for
 * through $ORIGIN. The new devices come last in the list.
 * May be called again for the same file: another instance, under "name#2". */
KEEL_API keel_status keel_plugin_load(const char* path, const keel_instance_settings* settings,
                                      const char* sha256, uint32_t* out_backend);

typedef struct keel_backend_info {
  keel_header header;
  char name[64]; /* "cpu", "vulkan", "cuda#2" */
  char vendor[64];
  char version[64];
  char path[512];
  uint32_t device_count;
  keel_status status; /* of loading it */
  char reason[512];   /* why it failed, or why it has no device; else empty */
} keel_backend_info;

/* Problems that the validation layer has found and logged so far; 0 while it is off. */
KEEL_API keel_status keel_validation_count(uint64_t* out_count);

KEEL_API keel_status keel_backend_count(uint32_t* out_count);
KEEL_API keel_status keel_backend_get(uint32_t index, keel_backend_info* out_info);

/* ---- devices ------------------------------------------------------------ */

KEEL_API keel_status keel_device_count(uint32_t* out_count);
/* Opens device |index| on first use. Analogue: cuDeviceGet. */
KEEL_API keel_status keel_device_get(uint32_t index, keel_device* out_device);
/* By "backend:ordinal", or "backend" for its first. KEEL_NOT_FOUND lists what there is. */
KEEL_API keel_status keel_device_find(const char* name, keel_device* out_device);
/* Its "backend:ordinal"; |out_name| has room for |size| bytes, 80 always suffice. */
KEEL_API keel_status keel_device_name(keel_device device, char* out_name, uint64_t size);
KEEL_API keel_status keel_device_info_get(keel_device device, keel_device_info* out_info);
/* KEEL_UNSUPPORTED where the plugin cannot tell. Bytes. */
KEEL_API keel_status keel_device_memory_info(keel_device device, uint64_t* out_free,
                                             uint64_t* out_total);
/* Errors of its memory, whether its clocks are held down, whether it can be used, and why
 * not; a lost device is an answer, not a failure. KEEL_UNSUPPORTED where the plugin cannot
 * tell. Does not wait for work. Analogue: NVML. */
KEEL_API keel_status keel_device_health_get(keel_device device, keel_device_health* out_health);
/* A handle of the vendor's for work with its own interface; Keel keeps it. |which|: 0 for the
 * main one (CUcontext, VkDevice), others as the plugin's documentation has them.
 * KEEL_UNSUPPORTED where it gives out none. */
KEEL_API keel_status keel_device_native_handle(keel_device device, uint32_t which,
                                               void** out_handle);
/* Waits for all streams of the device. Analogue: cuCtxSynchronize. */
KEEL_API keel_status keel_device_synchronize(keel_device device, int64_t timeout_ns);

/* ---- memory ------------------------------------------------------------- */

/* |size| > 0 bytes, aligned to the device's alignment (>= 64); not zeroed. Taken
 * from a pool that keeps freed blocks; on KEEL_OUT_OF_MEMORY the pool was given
 * back and the allocation tried again. Pinned memory is host memory: the host may
 * dereference it, device memory never. Analogue: cudaMalloc, cudaMallocHost. */
KEEL_API keel_status keel_alloc(keel_device device, keel_memory_kind kind, uint64_t size,
                                void** out_pointer);
/* |pointer| as keel_alloc gave it; NULL is fine. Does not wait: the block is used
 * again only once all work enqueued before, on any stream, is done. */
KEEL_API keel_status keel_free(keel_device device, void* pointer);
/* Stream-ordered device memory: valid for work enqueued on |stream| from here on, and
 * on other streams that are ordered after this point by an event. Takes a cached block
 * without waiting for its last use where that lies on |stream| itself, or before an
 * event that |stream| has waited for. May be freed by either form.
 * Analogue: cudaMallocAsync. */
KEEL_API keel_status keel_alloc_on_stream(keel_stream stream, uint64_t size, void** out_pointer);
/* The block is free after what |stream| has enqueued so far; whatever other streams
 * still do with it, the caller has ordered before that by events. Takes device memory of
 * either form of allocation; NULL is fine. Analogue: cudaFreeAsync. */
KEEL_API keel_status keel_free_on_stream(keel_stream stream, void* pointer);
/* Gives cached blocks back to the device. */
KEEL_API keel_status keel_memory_trim(keel_device device);

/* Bytes unless it says otherwise; of all kinds of memory of one device together. */
typedef struct keel_memory_stats {
  keel_header header;
  uint64_t allocated;      /* in use by the caller, in blocks as they were handed out */
  uint64_t allocated_peak; /* since the start, or the last reset */
  uint64_t reserved;       /* held from the plugin: in use, cached, or lost to rounding */
  uint64_t reserved_peak;
  uint64_t requested;     /* in use, as asked for: allocated - requested is rounding */
  uint64_t live_blocks;   /* number of allocations in use */
  uint64_t allocations;   /* number of successful calls */
  uint64_t cache_hits;    /* of those, without asking the plugin */
  uint64_t native_allocs; /* calls of the plugin's alloc, and of its free */
  uint64_t native_frees;
  uint64_t splits; /* blocks cut, and joined again */
  uint64_t merges;
  uint64_t out_of_memory; /* times the cache had to be given back for want of memory */
} keel_memory_stats;

KEEL_API keel_status keel_memory_stats_get(keel_device device, keel_memory_stats* out_stats);
/* Peaks start again from what is in use now. */
KEEL_API keel_status keel_memory_stats_reset_peaks(keel_device device);
/* Every segment held from the plugin and the blocks in it, with sizes, states and
 * streams, as JSON text (docs/operations.md); room as in keel_op_explain. */
KEEL_API keel_status keel_memory_snapshot(keel_device device, char* out_text,
                                          uint64_t* in_out_size);

/* Pins host memory of the caller for fast copies with |device|; until unregister, when no
 * work may use it any more. For a CPU device what lies in it of whole 2 MiB becomes huge
 * pages, up to 1 GiB a call, unless advised otherwise (MADV_NOHUGEPAGE). */
KEEL_API keel_status keel_host_register(keel_device device, void* pointer, uint64_t size);
KEEL_API keel_status keel_host_unregister(keel_device device, void* pointer);

typedef struct keel_memory_info {
  keel_header header;
  void* base; /* of the allocation that holds the pointer */
  uint64_t size;
  keel_memory_kind kind;
  uint32_t reserved;
  void* host_alias; /* of |base|: NULL where the host cannot reach it */
} keel_memory_info;

/* The allocation that (device, pointer) lies in; KEEL_NOT_FOUND if none. */
KEEL_API keel_status keel_memory_find(keel_device device, const void* pointer,
                                      keel_memory_info* out_info);

/* ---- streams, events, gates --------------------------------------------- */

/* An in-order queue. |priority|: 0 normal, negative more urgent. Destroying one
 * waits for its work, collectives included, up to the default deadline; held work is
 * cancelled.
 * Analogue: cudaStream_t, aclrtStream. */
KEEL_API keel_status keel_stream_create(keel_device device, int32_t priority,
                                        keel_stream* out_stream);
KEEL_API keel_status keel_stream_destroy(keel_stream stream);
/* A stream around |native|, a stream of the vendor's own interface that belongs to |device|
 * (CUstream, with the null stream a valid one), so that a framework's work and Keel's are in
 * one order. The handle stays the caller's, who keeps it until keel_stream_destroy has
 * returned. What others enqueue on it is waited for by every wait, event and free like
 * Keel's own work, but not held by gates. Once failed it stays so. KEEL_UNSUPPORTED where
 * the backend has nothing to wrap. */
KEEL_API keel_status keel_stream_wrap(keel_device device, void* native, keel_stream* out_stream);
/* The vendor's handle inside |stream|, for work beside Keel's, which holds as for wrapped
 * ones; what Keel holds behind a gate is not in it yet. Keel's, and valid until the stream is
 * destroyed or recovered. KEEL_UNSUPPORTED where there is none. */
KEEL_API keel_status keel_stream_unwrap(keel_stream stream, void** out_native);
/* KEEL_OK: all done; KEEL_NOT_READY; or the failure. */
KEEL_API keel_status keel_stream_query(keel_stream stream);
/* Waits until all is done. A failure of the stream, or of another whose event it
 * waited for, is returned here and at every other wait that depends on it; the
 * data is then undefined, and later work is dropped until keel_stream_recover. */
KEEL_API keel_status keel_stream_synchronize(keel_stream stream, int64_t timeout_ns);
/* Drains a failed stream and makes it usable again: what it used is the caller's then.
 * Waits for the collectives enqueued before, too, which wait for all ranks to call. At
 * the deadline, KEEL_TIMED_OUT, the stream is as before. KEEL_DEVICE_LOST stays. */
KEEL_API keel_status keel_stream_recover(keel_stream stream, int64_t timeout_ns);

/* An event marks a point in a stream of any device. It may be recorded again;
 * waits made before keep the earlier point. One that was never recorded counts
 * as done. |flags|: KEEL_EVENT_TIMING. Analogue: cudaEvent_t. */
KEEL_API keel_status keel_event_create(uint32_t flags, keel_event* out_event);
KEEL_API keel_status keel_event_destroy(keel_event event);
KEEL_API keel_status keel_event_record(keel_event event, keel_stream stream);
KEEL_API keel_status keel_event_query(keel_event event);
KEEL_API keel_status keel_event_wait(keel_event event, int64_t timeout_ns);
/* Later work on |stream| runs after the event's last record, on whatever backend
 * that was. Does not block. */
KEEL_API keel_status keel_stream_wait_event(keel_stream stream, keel_event event);
/* Between two timing events recorded on one device, both done. */
KEEL_API keel_status keel_event_elapsed(keel_event start, keel_event end,
                                        uint64_t* out_nanoseconds);

/* A gate goes from the host to streams: what is enqueued behind a closed gate is
 * held in Keel, its arguments copied, and submitted when the gate opens. Opens
 * once. Opened with a failure, the streams behind it fail with that status.
 * Destroying a closed gate opens it with KEEL_CANCELLED. */
KEEL_API keel_status keel_gate_create(keel_gate* out_gate);
KEEL_API keel_status keel_gate_destroy(keel_gate gate);
KEEL_API keel_status keel_gate_open(keel_gate gate, keel_status status, const char* text);
KEEL_API keel_status keel_stream_wait_gate(keel_stream stream, keel_gate gate);

/* ---- copies ------------------------------------------------------------- */

/* Enqueues a copy of |size| bytes on |stream|, a stream of either device. One side
 * may be KEEL_HOST: pageable, pinned or registered memory that stays valid until
 * the copy is done. Pageable memory, which memory pinned for another device is too, may
 * be read before this returns, whatever the stream still has to do (not by devices whose
 * plugin claims PAGEABLE_ASYNC). Ranges must lie inside one allocation and not overlap.
 * |size| 0 does nothing.
 * Between backends it is staged through pinned memory in pipelined chunks. Analogue:
 * cudaMemcpyAsync, cudaMemcpyPeerAsync. */
KEEL_API keel_status keel_copy(keel_stream stream, keel_device destination_device,
                               void* destination, keel_device source_device, const void* source,
                               uint64_t size);
/* Fills with a pattern of 1, 2, 4 or 8 bytes, of which |size| is a multiple. */
KEEL_API keel_status keel_fill(keel_stream stream, void* destination, const void* pattern,
                               uint32_t pattern_size, uint64_t size);

typedef uint32_t keel_copy_route;
enum {
  KEEL_ROUTE_LOCAL = 1, /* within one device */
  KEEL_ROUTE_HOST = 2,  /* host memory to or from a device */
  KEEL_ROUTE_PEER = 3,  /* the plugin's own peer copy */
  KEEL_ROUTE_ALIAS = 4, /* one leg: the other side is reached through its host alias */
  KEEL_ROUTE_STAGED = 5 /* two legs through pinned buffers */
};

typedef struct keel_copy_path {
  keel_header header;
  keel_copy_route route;
  uint32_t legs;        /* times each byte is moved */
  uint64_t chunk_bytes; /* 0: in one piece */
  char text[256];       /* "vulkan:0 -> pinned 4 MiB x 3 -> cuda:0" */
} keel_copy_path;

/* The way keel_copy takes between two devices (KEEL_HOST: the host). */
KEEL_API keel_status keel_copy_path_get(keel_device destination_device, keel_device source_device,
                                        keel_copy_path* out_path);

/* ---- operators ---------------------------------------------------------- */

/* Runs an operator (docs/operators.md) on the stream's device: checked against
 * its schema, then given to the kernel with the best score. Where the backend has
 * none, the CPU's runs on staged copies, which is counted and can be forbidden.
 * The call and its tensors are copied; their memory stays valid until done. */
KEEL_API keel_status keel_op_run(keel_stream stream, const keel_op_call* call);

typedef struct keel_op_plan {
  keel_header header;
  keel_op_level level;
  uint32_t score;
  uint64_t workspace_bytes;
  uint32_t fallback; /* 1: staged copies and the CPU's kernel */
  uint32_t candidates;
  char kernel[128];
} keel_op_plan;

/* What keel_op_run would choose; KEEL_UNSUPPORTED when nothing can run it. */
KEEL_API keel_status keel_op_plan_get(keel_device device, const keel_op_call* call,
                                      keel_op_plan* out_plan);
/* All candidates, one a line, best first, with score and the reason of a refusal.
 * |*in_out_size|: room, then the size with its terminator; KEEL_OUT_OF_RANGE tells it. */
KEEL_API keel_status keel_op_explain(keel_device device, const keel_op_call* call, char* out_text,
                                     uint64_t* in_out_size);
KEEL_API keel_status keel_op_find(const char* name, keel_op_id* out_op);
/* "matmul"; NULL for a number that is none. Static. */
KEEL_API const char* keel_op_name(keel_op_id op);

/* A kernel of the framework, for every device of one backend. */
typedef struct keel_custom_kernel {
  keel_header header;
  keel_op_id op;       /* an operator of the table */
  uint32_t score;      /* plugins' own kernels say 100 */
  const char* backend; /* "cpu" */
  const char* name;    /* for explain; copied */
  void* user;
  /* Non-zero when it can run the call. */
  int (*accepts)(void* user, const keel_op_call* call);
  /* Enqueues it on |stream|, with other keel functions or native ones. */
  keel_status (*run)(void* user, keel_stream stream, const keel_op_call* call);
} keel_custom_kernel;

KEEL_API keel_status keel_op_register(const keel_custom_kernel* kernel);
/* Fallbacks run so far in this process; and whether one is refused
 * (KEEL_UNSUPPORTED) instead of run. KEEL_FALLBACK=forbid sets it at start. */
KEEL_API keel_status keel_op_fallback_count(uint64_t* out_count);
KEEL_API keel_status keel_op_forbid_fallback(int forbid);

/* ---- kernels of the caller ---------------------------------------------- */

/* Loads a binary for |device|: SPIR-V on Vulkan, a shared object on the CPU, whatever
 * the plugin says of its formats in docs/. |data| is copied. KEEL_UNSUPPORTED for a
 * format that the plugin does not take, KEEL_INVALID_ARGUMENT for one that it cannot
 * read. Analogue: cuModuleLoadData. */
KEEL_API keel_status keel_module_load(keel_device device, keel_binary_format format,
                                      const void* data, uint64_t size, keel_module* out_module);
/* Its kernels become invalid; launches that were enqueued still run. */
KEEL_API keel_status keel_module_unload(keel_module module);
/* KEEL_NOT_FOUND when the module has no such kernel. The kernel lives as long as its
 * module and needs no destroying. Analogue: cuModuleGetFunction. */
KEEL_API keel_status keel_kernel_find(keel_module module, const char* name,
                                      keel_kernel* out_kernel);
/* Enqueues one launch. Grid and block sizes are at least 1 in each dimension; every
 * argument has a value and a size; they are copied. Device memory passed by pointer stays
 * valid until the launch is done. Analogue: cuLaunchKernel. */
KEEL_API keel_status keel_kernel_launch(keel_stream stream, keel_kernel kernel,
                                        const keel_launch* launch);

/* ---- traces and profilers ----------------------------------------------- */

/* Writes what streams do to |path| in the Chrome trace format, which Perfetto opens,
 * until keel_trace_stop or keel_shutdown. KEEL_TRACE=path starts one in keel_init.
 * |path|: a new file, a file of the user, whose content is replaced, or a character
 * device. KEEL_PERMISSION_DENIED for a symbolic link, which is not followed, for a file
 * of another user and for one with a second name (a hard link). KEEL_ALREADY_EXISTS
 * while one is being written. */
KEEL_API keel_status keel_trace_start(const char* path);
/* KEEL_OK once the file is complete; KEEL_DATA_LOSS when it could not be written in
 * full: then events were dropped, and nothing else was harmed. */
KEEL_API keel_status keel_trace_stop(void);

/* What a profiler is told of: |begin| and |end| surround the enqueueing call on the
 * calling thread, with the same |token|, which |begin| returned. |name| is static
 * ("copy", "matmul", "all_reduce"). Each may be NULL. They are called from any thread,
 * must be quick, and must not call Keel.
 * For NVTX: nvtxRangeStartA in |begin|, nvtxRangeEnd in |end|. */
typedef struct keel_profiler {
  keel_header header;
  void* user;
  uint64_t (*begin)(void* user, const char* name, keel_device device, keel_stream stream);
  void (*end)(void* user, uint64_t token, keel_status status);
  /* Bytes allocated on the device after an allocation or a free. */
  void (*memory)(void* user, keel_device device, uint64_t allocated_bytes);
} keel_profiler;

/* One a process; NULL takes it away. Returns once no call of the former one runs. */
KEEL_API keel_status keel_profiler_set(const keel_profiler* profiler);

/* ---- topology ----------------------------------------------------------- */

/* The machine as Keel sees it: packages, NUMA nodes, devices with PCI addresses and
 * distances, network interfaces; as JSON text (docs/operations.md), room as in
 * keel_op_explain. |synthetic|: NULL for this machine, or one described as hwloc does
 * ("pack:2 numa:2 core:4 pu:2"), which is refused with KEEL_INVALID_ARGUMENT if it is none. */
KEEL_API keel_status keel_topology_get(const char* synthetic, char* out_text,
                                       uint64_t* in_out_size);
/* Number of the physical chip that |device| is a way into, counted from 0: devices of
 * two backends with one PCI address or UUID have the same. */
KEEL_API keel_status keel_device_chip(keel_device device, uint32_t* out_chip);

/* ---- communicators ------------------------------------------------------ */

/* Operations of an urgent communicator overtake those of normal ones of the same process, which
 * let them go first between two windows, or every few MiB, from when all ranks have called
 * the urgent one. What a normal one waits so is bounded (10 ms each time), so that it always
 * goes on. The order within a communicator stays the caller's. */
typedef uint32_t keel_comm_priority;
enum { KEEL_COMM_NORMAL = 0, KEEL_COMM_URGENT = 1 };

typedef struct keel_comm_options {
  keel_header header;
  int64_t timeout_ns;          /* of creating it and of each operation; 0: the default deadline */
  uint64_t chunk_bytes;        /* the largest window that the host stages, rank 0's; 0: 2 MiB */
  uint32_t forbid_alias;       /* 1: always stage, never reach device memory by host alias */
  keel_comm_priority priority; /* the same on all ranks; a split inherits none */
  uint32_t forbid_native;      /* 1: this rank goes by Keel's own algorithms, even where its
                                  device has a native library; as KEEL_NATIVE=0 for all */
  uint32_t reserved;
} keel_comm_options;

/* One communicator over |count| devices of this process, any backend at any rank,
 * the same device more than once if need be; |out_comms| gets the handle of each
 * rank. NULL options: defaults. A failure names the rank that could not be made, and
 * why. Analogue: ncclCommInitAll. */
KEEL_API keel_status keel_comm_init_all(const keel_device* devices, uint32_t count,
                                        const keel_comm_options* options, keel_comm* out_comms);

/* What ranks in several processes meet by: text without blanks, ended by a zero. One rank
 * makes it and hands it to the others by whatever means there are.
 * Analogue: ncclUniqueId. */
typedef struct keel_unique_id {
  char text[128];
} keel_unique_id;

/* The calling process serves the meeting, for one communicator, until all ranks have come
 * or it ends. */
KEEL_API keel_status keel_unique_id_create(keel_unique_id* out_id);
/* Rank |rank| of |world|, on |device|. Blocks until all ranks have come, or until the
 * deadline in |options|, when the failure names the ranks that are missing. Every rank
 * calls, from its own thread or process, with the same |id| and |world|; a rank that comes
 * twice and one whose world differs are refused. Once all have come, the failure of one
 * rank is told to all at once: that rank's own status to itself, KEEL_RANK_FAILED with its
 * name and the reason to the others. Analogue: ncclCommInitRank. */
KEEL_API keel_status keel_comm_init_rank(keel_device device, const keel_unique_id* id,
                                         uint32_t rank, uint32_t world,
                                         const keel_comm_options* options, keel_comm* out_comm);

/* What the launcher of this process has told it through the environment. */
typedef struct keel_launch_info {
  keel_header header;
  uint32_t rank;
  uint32_t world;
  uint32_t local_rank; /* among the ranks of this host */
  uint32_t local_world;
  char launcher[32]; /* "keel run", "torchrun", "Open MPI", "MPICH", "Slurm" */
} keel_launch_info;

/* KEEL_NOT_FOUND when no launcher has set all of its variables (docs/operations.md);
 * KEEL_INVALID_ARGUMENT, naming the variable, when one of a complete set makes no sense. */
KEEL_API keel_status keel_launch_info_get(keel_launch_info* out_info);
/* keel_comm_init_rank with rank, world and meeting place from the launcher: all processes
 * of the job, each once. Analogue: torch.distributed.init_process_group("env://"). */
KEEL_API keel_status keel_comm_init_env(keel_device device, const keel_comm_options* options,
                                        keel_comm* out_comm);

/* For keel_comm_split: takes part in no part. */
#define KEEL_NO_COLOR ((int32_t)-1)
/* Parts |comm|: ranks of one |color| (>= 0) make a communicator of their own, ordered by
 * |key|, then by rank. Every rank of |comm| calls, in the same order among its operations;
 * blocks until all have. |*out_comm| is 0 for KEEL_NO_COLOR. One thread that drives several
 * ranks cannot: a thread a rank. A failure names ranks by their numbers in |comm|, or says
 * which ranks of |comm| its numbers are. Analogue: ncclCommSplit. */
KEEL_API keel_status keel_comm_split(keel_comm comm, int32_t color, int32_t key,
                                     const keel_comm_options* options, keel_comm* out_comm);
/* The same ranks again: operations of the two know no order among each other. Blocks as
 * keel_comm_split does. With options.priority KEEL_COMM_URGENT: a second lane, for what is
 * small and waited for. */
KEEL_API keel_status keel_comm_duplicate(keel_comm comm, const keel_comm_options* options,
                                         keel_comm* out_comm);
/* Waits until everything this rank has enqueued is done. Analogue: ncclCommFinalize. */
KEEL_API keel_status keel_comm_finalize(keel_comm comm, int64_t timeout_ns);
/* Finalizes by the default deadline, and leaves: operations that the others wait for this
 * rank in fail with KEEL_ABORTED; none that this rank is done with. The same for a rank that is
 * left to keel_shutdown with nothing in flight, and, as KEEL_RANK_FAILED, whose process ends. */
KEEL_API keel_status keel_comm_destroy(keel_comm comm);
/* Fails everything in flight and everything later, on all ranks. */
KEEL_API keel_status keel_comm_abort(keel_comm comm);
KEEL_API keel_status keel_comm_rank(keel_comm comm, uint32_t* out_rank, uint32_t* out_world);
/* Deadline of this rank's operations from the next on; 0: the default deadline. */
KEEL_API keel_status keel_comm_timeout_set(keel_comm comm, int64_t timeout_ns);
/* KEEL_OK, or why the communicator failed: an abort, a rank that died, one that missed a
 * deadline. Such a communicator can only be destroyed. */
KEEL_API keel_status keel_comm_async_error(keel_comm comm);
/* The path of each rank, the algorithms and the sizes in use, as JSON text; room as in
 * keel_op_explain. */
KEEL_API keel_status keel_comm_explain(keel_comm comm, char* out_text, uint64_t* in_out_size);

/* What flight recorders wrote down, the last 1,024 operations of each rank, as JSON text
 * (docs/operations.md); room as in keel_op_explain, though a job that runs may need more a
 * moment later. Of processes that run and of those that were killed. |path_or_pid|: a file, a
 * folder of them, or a process number in digits; NULL: the folder that this process's own are
 * in. Works without keel_init. KEEL_NOT_FOUND where there is none; KEEL_DATA_LOSS for a file
 * that is none, which in a folder is listed with the reason instead. */
KEEL_API keel_status keel_flight_read(const char* path_or_pid, char* out_text,
                                      uint64_t* in_out_size);

/* Of this rank. */
typedef struct keel_comm_stats {
  keel_header header;
  uint64_t operations;
  uint64_t bytes_to_host;     /* staged device -> host */
  uint64_t bytes_to_device;   /* staged host -> device */
  uint64_t bytes_in_place;    /* of its buffers, read and written where they are */
  uint64_t gave_way;          /* times its operations let urgent ones go first */
  uint64_t native_operations; /* that native libraries did, or had a part in */
} keel_comm_stats;
KEEL_API keel_status keel_comm_stats_get(keel_comm comm, keel_comm_stats* out_stats);

/* ---- collectives --------------------------------------------------------
 * Each rank calls once, in the same order on every rank, on a stream of its own device;
 * one thread may drive all ranks: none waits for a rank to call. Done when the rank's stream
 * is done. Counts and offsets are elements of |dtype|; arrays have an entry a rank and are
 * copied. A NULL array of offsets: one piece after the other. In place as NCCL has it
 * (send == receive; all_gather and gather: send == receive + rank * count; reduce_scatter
 * and scatter: receive == send + rank * count; all_to_all: send == receive). 16- and 8-bit
 * types are reduced in float32 and rounded once. Each element is produced in one place, or
 * by the same steps in all: all ranks hold the same bits. A mismatch of operation, count,
 * dtype, reduction or root between ranks fails all of them and names the odd one. Every call
 * that names a live |comm| counts, also one that is refused, whatever for: the n-th call of each
 * rank meets the n-th of the others, which then fail with KEEL_RANK_FAILED and the rank's name.
 * So all ranks go on behind it alike, and none makes up for a refused call by another.
 * On a CPU device, memory registered with keel_host_register serves too. */
KEEL_API keel_status keel_all_reduce(keel_comm comm, const void* send, void* receive,
                                     uint64_t count, keel_dtype dtype, keel_reduction reduction,
                                     keel_stream stream);
/* |receive| is written on the root only, and may be NULL elsewhere. */
KEEL_API keel_status keel_reduce(keel_comm comm, const void* send, void* receive, uint64_t count,
                                 keel_dtype dtype, keel_reduction reduction, uint32_t root,
                                 keel_stream stream);
/* |send| is read on the root only; |receive| is written on all ranks. */
KEEL_API keel_status keel_broadcast(keel_comm comm, const void* send, void* receive, uint64_t count,
                                    keel_dtype dtype, uint32_t root, keel_stream stream);
/* |count| elements from each rank; |receive| has world * count. */
KEEL_API keel_status keel_all_gather(keel_comm comm, const void* send, void* receive,
                                     uint64_t count, keel_dtype dtype, keel_stream stream);
/* counts[i] elements from rank i, to receive + offsets[i]; the same arrays on all ranks. */
KEEL_API keel_status keel_all_gather_v(keel_comm comm, const void* send, void* receive,
                                       const uint64_t* counts, const uint64_t* offsets,
                                       keel_dtype dtype, keel_stream stream);
/* |count| elements to each rank; |send| has world * count. */
KEEL_API keel_status keel_reduce_scatter(keel_comm comm, const void* send, void* receive,
                                         uint64_t count, keel_dtype dtype, keel_reduction reduction,
                                         keel_stream stream);
/* counts[i] elements to rank i, from send + offsets[i]; the same arrays on all ranks. */
KEEL_API keel_status keel_reduce_scatter_v(keel_comm comm, const void* send, void* receive,
                                           const uint64_t* counts, const uint64_t* offsets,
                                           keel_dtype dtype, keel_reduction reduction,
                                           keel_stream stream);
/* |count| elements from each rank to each; both buffers have world * count. */
KEEL_API keel_status keel_all_to_all(keel_comm comm, const void* send, void* receive,
                                     uint64_t count, keel_dtype dtype, keel_stream stream);
/* send_counts[i] elements from send + send_offsets[i] to rank i, and so back. What one
 * rank sends to another must be what the other receives. In place, where send == receive,
 * counts and offsets are the same both ways. */
KEEL_API keel_status keel_all_to_all_v(keel_comm comm, const void* send,
                                       const uint64_t* send_counts, const uint64_t* send_offsets,
                                       void* receive, const uint64_t* receive_counts,
                                       const uint64_t* receive_offsets, keel_dtype dtype,
                                       keel_stream stream);
/* |count| elements from each rank; |receive|, on the root only, has world * count. */
KEEL_API keel_status keel_gather(keel_comm comm, const void* send, void* receive, uint64_t count,
                                 keel_dtype dtype, uint32_t root, keel_stream stream);
/* The same arrays on all ranks. */
KEEL_API keel_status keel_gather_v(keel_comm comm, const void* send, void* receive,
                                   const uint64_t* counts, const uint64_t* offsets,
                                   keel_dtype dtype, uint32_t root, keel_stream stream);
/* |count| elements to each rank; |send|, on the root only, has world * count. */
KEEL_API keel_status keel_scatter(keel_comm comm, const void* send, void* receive, uint64_t count,
                                  keel_dtype dtype, uint32_t root, keel_stream stream);
/* The same arrays on all ranks. */
KEEL_API keel_status keel_scatter_v(keel_comm comm, const void* send, void* receive,
                                    const uint64_t* counts, const uint64_t* offsets,
                                    keel_dtype dtype, uint32_t root, keel_stream stream);
KEEL_API keel_status keel_barrier(keel_comm comm, keel_stream stream);

/* From this rank to |peer| and back; the n-th send to a peer meets its n-th receive from
 * here, of the same dtype and count. Analogue: ncclSend, ncclRecv. */
KEEL_API keel_status keel_send(keel_comm comm, const void* send, uint64_t count, keel_dtype dtype,
                               uint32_t peer, keel_stream stream);
KEEL_API keel_status keel_recv(keel_comm comm, void* receive, uint64_t count, keel_dtype dtype,
                               uint32_t peer, keel_stream stream);
/* Both at once, without a deadlock between neighbours. */
KEEL_API keel_status keel_send_recv(keel_comm comm, const void* send, uint64_t send_count,
                                    uint32_t to, void* receive, uint64_t receive_count,
                                    uint32_t from, keel_dtype dtype, keel_stream stream);
/* What this thread calls between the two is enqueued at the end of the outermost group; sends
 * and receives of one communicator and stream then go on together, in any order: none may
 * receive where another sends or receives. A call that is refused is refused at once, and the
 * group goes on; the other ranks hear of it in its place. Whoever waits within a group (for a
 * stream, an event, a communicator's end or part) is refused with KEEL_FAILED_PRECONDITION.
 * Analogue: ncclGroupStart, ncclGroupEnd. */
KEEL_API keel_status keel_group_start(void);
KEEL_API keel_status keel_group_end(void);

/* A reduction that multiplies what this rank sends by |factor| before it is summed: a
 * value for |reduction| above, valid for |comm| until it is destroyed. Ranks may differ in
 * their factors. Analogue: ncclRedOpCreatePreMulSum. */
KEEL_API keel_status keel_premul_sum_create(keel_comm comm, double factor,
                                            keel_reduction* out_reduction);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_KEEL_H_ */
