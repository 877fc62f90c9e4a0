// SPDX-License-Identifier: Apache-2.0
/* Keel, the framework side: devices, streams, events, gates, memory, operators and collectives of
 * every chip behind one C interface.
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
 * Rules that hold for every function here, unless the function's comment says otherwise:
 *  - Threads: any thread may call. Keel serialises concurrent calls on one stream in an
 *    unspecified order; a caller that needs an order calls from one thread.
 *  - Result: KEEL_OK, or a failure that changed nothing and left every handle
 *    usable; keel_last_error() then names the argument, the plugin or the rank.
 *  - Blocking: only functions with a |timeout_ns| wait for a device, and never longer.
 *    keel_stream_destroy, keel_comm_destroy and keel_shutdown wait up to the default
 *    deadline; functions that create a communicator wait for the communicator's other ranks.
 *    keel_shutdown ends the waits of all other threads with KEEL_ABORTED.
 *  - Handles are generation-tagged values: a destroyed handle, or a value that never was
 *    a handle, gives KEEL_INVALID_HANDLE. A handle of 0 is no object.
 *  - Structs with a keel_header: the caller sets size and type as a minimum
 *    (KEEL_STRUCT_INIT). |out_*| parameters are written on success only.
 *  - After fork every function returns KEEL_FORKED in the child; the child may exec.
 *    keel_init_options.fork_memory decides what the child sees of CPU devices' memory. */
#ifndef KEEL_KEEL_H_
#define KEEL_KEEL_H_

#include <keel/abi.h> /* status, dtype, tensor: shared with plugins */

#ifdef __cplusplus
extern "C" {
#endif

#define KEEL_VERSION_MAJOR 0
#define KEEL_VERSION_MINOR 1
#define KEEL_VERSION_PATCH 0

#define KEEL_API KEEL_EXPORT

/* Initialises a struct with a keel_header: sets size and type, zeroes the rest.
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

/* Handles are values, not pointers, and may be copied freely. */
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

/* Stands for the host where keel_copy and keel_copy_path_get take a device. */
#ifdef __cplusplus
#define KEEL_HOST (keel_device{0})
#else
#define KEEL_HOST ((keel_device){0})
#endif

/* Stands for the default deadline: keel_init_options.default_timeout_ns, else KEEL_TIMEOUT seconds
 * of the environment, else 10 minutes. No value means "forever". */
#define KEEL_TIMEOUT_DEFAULT ((int64_t)-1)
/* As long as the operations may take: the sum of the default deadline and the deadlines of the
 * collectives and messages that are not complete, on the stream, on the event's stream, or of the
 * communicator. Such a wait returns KEEL_TIMED_OUT if an operation misses its own deadline, or if
 * other work takes longer than the default one. Taken by keel_stream_synchronize, keel_event_wait
 * and keel_comm_finalize. */
#define KEEL_TIMEOUT_OPERATIONS ((int64_t)-2)

/* ---- errors and logs ---------------------------------------------------- */

/* A status beside those of keel_status, which no plugin returns: the call was refused because its
 * stream had failed before. The text has the failure, which waits and queries return with its own
 * code. A communicator that is over, a lost device and arguments that are refused for themselves
 * keep their codes. */
enum { KEEL_STREAM_FAILED = 37 };

/* Name of |status|, "KEEL_TIMED_OUT"; "KEEL_UNKNOWN" for an unknown number. Static string. */
KEEL_API const char* keel_status_name(keel_status status);
/* Text of the calling thread's last failure; valid until that thread's next call. */
KEEL_API const char* keel_last_error(void);
/* Version of the loaded library: (major << 16) | (minor << 8) | patch. */
KEEL_API uint32_t keel_version(void);

typedef void (*keel_log_fn)(void* user, keel_log_level level, const char* text);
/* Sends messages of |level| and above to |fn|, which Keel calls from any thread, or to stderr if
 * |fn| is NULL. Before the first call: warnings and errors, or KEEL_LOG=trace|debug|info|... */
KEEL_API keel_status keel_set_log(keel_log_level level, keel_log_fn fn, void* user);

/* ---- process ------------------------------------------------------------ */

/* Device and pinned memory of CPU devices in a forked child, which other processes share through
 * the same pages. The memory of other devices is as their drivers leave it. KEEL_FORK_PRIVATE: the
 * child reads what the memory holds, and its writes stay its own. In a page that the child has not
 * written yet, it also sees later writes of the parent. KEEL_FORK_UNMAPPED: the child has no such
 * memory; an access ends it with SIGSEGV. KEEL_FORK_SHARED: the child's writes reach the parent,
 * and the parent's peers. */
typedef uint32_t keel_fork_memory;
enum { KEEL_FORK_PRIVATE = 0, KEEL_FORK_UNMAPPED = 1, KEEL_FORK_SHARED = 2 };

typedef struct keel_init_options {
  keel_header header;
  /* Folder of the plugins (libkeel_*.so); absolute. NULL: $KEEL_PLUGIN_PATH, else keel/plugins
   * beside libkeel.so. */
  const char* plugin_folder;
  /* Comma-separated names of the plugins to load, "cpu,vulkan"; NULL: $KEEL_BACKENDS, else all; ""
   * loads none. */
  const char* backends;
  /* Value of KEEL_TIMEOUT_DEFAULT; 0: $KEEL_TIMEOUT, else 600 s. */
  int64_t default_timeout_ns;
  /* 1: the validation layer (docs/operations.md) checks every call before the plugin gets it,
   * detects races between streams and records where each handle was created; 0: only if
   * KEEL_VALIDATE=1. */
  uint32_t validate;
  keel_fork_memory fork_memory; /* 0: KEEL_FORK_PRIVATE */
} keel_init_options;

/* Loads the plugins and finds their devices. NULL: defaults. A plugin that fails to load is logged
 * and listed by keel_backend_get with the reason; the other plugins still load. KEEL_ALREADY_EXISTS
 * while Keel is initialised. */
KEEL_API keel_status keel_init(const keel_init_options* options);
/* Ends Keel for all threads: blocked calls return KEEL_ABORTED within 0.1 s, and new calls return
 * KEEL_FAILED_PRECONDITION. Once no other thread is inside Keel, keel_shutdown destroys every
 * remaining object and logs a warning with their numbers. KEEL_TIMED_OUT if a thread is still
 * inside at the default deadline: the text names the thread's call, nothing was destroyed, and the
 * next keel_shutdown continues. KEEL_FAILED_PRECONDITION inside a function that Keel has called,
 * such as a log function. */
KEEL_API keel_status keel_shutdown(void);

/* Loads one more plugin file. |path| is absolute; root or the user owns the file and its folder,
 * and nobody else may write to them. |settings| may be NULL. |sha256|: NULL, or 64 hex digits that
 * the file must match: Keel then loads the library from a sealed copy in memory whose digest was
 * checked, so that replacing or modifying the file during the call cannot run other code. The
 * digest covers this file alone, not the libraries it needs; libraries that the plugin itself opens
 * by a bare name are not searched through $ORIGIN. The new devices come last in the list. The same
 * file may be loaded again: another instance, under "name#2". */
KEEL_API keel_status keel_plugin_load(const char* path, const keel_instance_settings* settings,
                                      const char* sha256, uint32_t* out_backend);

typedef struct keel_backend_info {
  keel_header header;
  char name[64]; /* "cpu", "vulkan", "cuda#2" */
  char vendor[64];
  char version[64];
  char path[512];
  uint32_t device_count;
  keel_status status; /* KEEL_OK, or the failure to load */
  char reason[512];   /* why loading failed, or why no device was found; else empty */
} keel_backend_info;

/* Number of problems that the validation layer has found and logged so far; 0 while the layer is
 * off. */
KEEL_API keel_status keel_validation_count(uint64_t* out_count);

KEEL_API keel_status keel_backend_count(uint32_t* out_count);
KEEL_API keel_status keel_backend_get(uint32_t index, keel_backend_info* out_info);

/* ---- devices ------------------------------------------------------------ */

KEEL_API keel_status keel_device_count(uint32_t* out_count);
/* Returns device |index| and opens the device on first use. Analogue: cuDeviceGet. */
KEEL_API keel_status keel_device_get(uint32_t index, keel_device* out_device);
/* Finds a device by "backend:ordinal", or by "backend" the first device of that backend.
 * KEEL_NOT_FOUND lists the existing devices. */
KEEL_API keel_status keel_device_find(const char* name, keel_device* out_device);
/* Writes the device's "backend:ordinal". |out_name| has room for |size| bytes; 80 suffice. */
KEEL_API keel_status keel_device_name(keel_device device, char* out_name, uint64_t size);
KEEL_API keel_status keel_device_info_get(keel_device device, keel_device_info* out_info);
/* Free and total device memory in bytes. KEEL_UNSUPPORTED where the plugin cannot tell. */
KEEL_API keel_status keel_device_memory_info(keel_device device, uint64_t* out_free,
                                             uint64_t* out_total);
/* Memory errors, clock throttling, and whether the device is usable, with the reason if not.
 * Returns KEEL_OK for a lost device too, with the loss in |out_health|. KEEL_UNSUPPORTED where the
 * plugin cannot tell. Does not wait for work. Analogue: NVML. */
KEEL_API keel_status keel_device_health_get(keel_device device, keel_device_health* out_health);
/* Returns a native handle for calls of the vendor's interface; Keel keeps ownership. |which|: 0 for
 * the main handle (CUcontext, VkDevice), other numbers as in the plugin's documentation.
 * KEEL_UNSUPPORTED where the plugin gives out none. */
KEEL_API keel_status keel_device_native_handle(keel_device device, uint32_t which,
                                               void** out_handle);
/* Waits for all streams of the device. Analogue: cuCtxSynchronize. */
KEEL_API keel_status keel_device_synchronize(keel_device device, int64_t timeout_ns);

/* ---- memory ------------------------------------------------------------- */

/* Allocates |size| bytes, aligned to the device's alignment (>= 64); not zeroed. |size| 0 succeeds
 * with NULL, which every free takes and every operation on 0 bytes. The memory comes from a pool
 * that keeps freed blocks; before KEEL_OUT_OF_MEMORY Keel returns the pool to the device, and waits
 * for work on freed blocks up to the default deadline, but not in a host callback. Pinned memory is
 * host memory, which the host may dereference. Analogue: cudaMalloc, cudaMallocHost. */
KEEL_API keel_status keel_alloc(keel_device device, keel_memory_kind kind, uint64_t size,
                                void** out_pointer);
/* Frees |pointer|, as keel_alloc returned it; NULL does nothing. Does not wait: Keel reuses the
 * block once all work enqueued before is done, or on a stream that runs behind that work. */
KEEL_API keel_status keel_free(keel_device device, void* pointer);
/* Allocates stream-ordered device memory: valid for work enqueued on |stream| after this call, and
 * on other streams that an event orders after this point. Reuses a cached block without waiting for
 * the block's last use if that use is on |stream| itself, or before an event that |stream| has
 * waited for. Either form of free takes the memory. Analogue: cudaMallocAsync. */
KEEL_API keel_status keel_alloc_on_stream(keel_stream stream, uint64_t size, void** out_pointer);
/* Frees the block after the work that |stream| has enqueued so far; the caller has ordered uses by
 * other streams before this point by events. Takes device memory of either form of allocation; NULL
 * does nothing. Analogue: cudaFreeAsync. */
KEEL_API keel_status keel_free_on_stream(keel_stream stream, void* pointer);
/* Returns cached segments in which every block is free and idle to the device. */
KEEL_API keel_status keel_memory_trim(keel_device device);

/* Bytes unless a comment says otherwise; sums over all kinds of memory of one device. */
typedef struct keel_memory_stats {
  keel_header header;
  uint64_t allocated;      /* in use by the caller, in blocks as handed out */
  uint64_t allocated_peak; /* since the start, or the last reset */
  uint64_t reserved;       /* held from the plugin: in use, cached, or lost to rounding */
  uint64_t reserved_peak;
  uint64_t requested;     /* in use, as requested: allocated - requested is rounding */
  uint64_t live_blocks;   /* number of allocations in use */
  uint64_t allocations;   /* number of successful calls */
  uint64_t cache_hits;    /* allocations served without asking the plugin */
  uint64_t native_allocs; /* calls of the plugin's alloc, and of the plugin's free */
  uint64_t native_frees;
  uint64_t splits; /* blocks split, and merged again */
  uint64_t merges;
  uint64_t out_of_memory; /* times memory ran out and the cache was returned */
} keel_memory_stats;

KEEL_API keel_status keel_memory_stats_get(keel_device device, keel_memory_stats* out_stats);
/* Resets the peaks to what is in use now. */
KEEL_API keel_status keel_memory_stats_reset_peaks(keel_device device);
/* Describes every segment held from the plugin and the segment's blocks, with sizes, states and
 * streams, as JSON text (docs/operations.md); room as in keel_op_explain. */
KEEL_API keel_status keel_memory_snapshot(keel_device device, char* out_text,
                                          uint64_t* in_out_size);

/* Pins host memory of the caller for fast copies with |device| until keel_host_unregister, when no
 * work may use the memory any more. keel_host_unregister does not wait: while a collective or a
 * message of this process that uses the memory is not complete, the call fails with
 * KEEL_FAILED_PRECONDITION and names the operation and the rank; other work is not checked. |size|
 * 0 registers nothing, and leaves nothing to unregister; |pointer| may then be NULL. Ranges may
 * nest, overlap, repeat and adjoin: the memory stays pinned while any registration covers it, and
 * one buffer may lie across adjacent ranges. keel_host_unregister takes back the latest
 * registration that begins at |pointer|; KEEL_INVALID_ARGUMENT if none does. The pages of the
 * memory stay as they are; with the setting register_huge_pages (KEEL_CPU_REGISTER_HUGE_PAGES=1) of
 * the CPU's plugin, whole 2 MiB pieces of the range become huge pages, up to 1 GiB a call, unless
 * the memory is advised otherwise (MADV_NOHUGEPAGE). */
KEEL_API keel_status keel_host_register(keel_device device, void* pointer, uint64_t size);
/* As the |size| of keel_host_register, with |pointer| NULL: declares all memory of this process,
 * now and later, reachable for |device|, a CPU device. Any readable and writable memory may then be
 * the buffer of a collective, a message or an operator. Nothing is pinned. Declarations are
 * counted; keel_host_unregister with NULL takes one back, the last one only while no collective or
 * message of this process on |device| is in flight. Each operation asks the kernel whether its
 * buffers are still mapped, about 1 us for each: a stale pointer fails the operation on this rank,
 * and on the other ranks with KEEL_RANK_FAILED and the name of this rank. Memory that is unmapped
 * while an operation runs is not caught. KEEL_UNSUPPORTED for other devices. */
#define KEEL_ALL_MEMORY UINT64_MAX
KEEL_API keel_status keel_host_unregister(keel_device device, void* pointer);

typedef struct keel_memory_info {
  keel_header header;
  void* base; /* start of the allocation that holds the pointer */
  uint64_t size;
  keel_memory_kind kind;
  uint32_t reserved;
  void* host_alias; /* host address of |base|: NULL where the host cannot reach the memory */
} keel_memory_info;

/* Finds the allocation of |device| that contains |pointer|; KEEL_NOT_FOUND if none does. */
KEEL_API keel_status keel_memory_find(keel_device device, const void* pointer,
                                      keel_memory_info* out_info);

/* ---- streams, events, gates --------------------------------------------- */

/* An in-order queue. |priority|: 0 normal, negative more urgent. keel_stream_destroy cancels held
 * work and waits for submitted work, collectives included, up to the default deadline. Analogue:
 * cudaStream_t, aclrtStream. */
KEEL_API keel_status keel_stream_create(keel_device device, int32_t priority,
                                        keel_stream* out_stream);
KEEL_API keel_status keel_stream_destroy(keel_stream stream);
/* Creates a stream around |native|, a native stream of |device| (CUstream; the null stream is
 * valid), so that a framework's work and Keel's run in one order. The caller owns |native| and
 * keeps it until keel_stream_destroy has returned. Every wait, event and free of Keel covers native
 * work enqueued on |native| as well; gates do not hold native work. After a failure of |native|,
 * keel_stream_recover returns that failure. KEEL_UNSUPPORTED where the backend has nothing to wrap.
 */
KEEL_API keel_status keel_stream_wrap(keel_device device, void* native, keel_stream* out_stream);
/* Returns the native stream of |stream| so that the caller can enqueue native work on it; the rules
 * of keel_stream_wrap apply to that work. Work held behind a gate has not been submitted to the
 * native stream yet. Keel owns the handle; the handle is valid until |stream| is destroyed or
 * recovered. KEEL_UNSUPPORTED where there is none. */
KEEL_API keel_status keel_stream_unwrap(keel_stream stream, void** out_native);
/* KEEL_OK when all work is done, KEEL_NOT_READY, or the failure. */
KEEL_API keel_status keel_stream_query(keel_stream stream);
/* Waits until all work on |stream| is done. A failure of the stream, or of another stream whose
 * event the stream waited for, is returned here and at every other wait that depends on the failed
 * work; the data is then undefined, and later work is dropped until keel_stream_recover. After
 * KEEL_TIMED_OUT keel_stream_query tells the two deadlines apart: KEEL_NOT_READY or KEEL_OK if the
 * wait ran out of |timeout_ns|, KEEL_TIMED_OUT if an operation missed its own deadline. A call
 * that a failed stream refuses returns KEEL_STREAM_FAILED; a call that is refused for itself does
 * not fail the stream. */
KEEL_API keel_status keel_stream_synchronize(keel_stream stream, int64_t timeout_ns);
/* Drains a failed stream and makes it usable again; the memory that its work used is then free for
 * the caller. Also waits for the collectives enqueued before, which wait for all ranks to call.
 * KEEL_TIMED_OUT at the deadline leaves the stream as before. KEEL_DEVICE_LOST is permanent. */
KEEL_API keel_status keel_stream_recover(keel_stream stream, int64_t timeout_ns);

/* An event marks a point in a stream of any device. Recording an event again leaves earlier waits
 * at the earlier point. An event that was never recorded counts as done. |flags|:
 * KEEL_EVENT_TIMING. Analogue: cudaEvent_t. */
KEEL_API keel_status keel_event_create(uint32_t flags, keel_event* out_event);
KEEL_API keel_status keel_event_destroy(keel_event event);
KEEL_API keel_status keel_event_record(keel_event event, keel_stream stream);
KEEL_API keel_status keel_event_query(keel_event event);
KEEL_API keel_status keel_event_wait(keel_event event, int64_t timeout_ns);
/* Makes later work on |stream| run after the event's last record, on whatever backend the event was
 * recorded. Does not block. */
KEEL_API keel_status keel_stream_wait_event(keel_stream stream, keel_event event);
/* Calls |fn|(|user|, status) once, when all work enqueued on |stream| before this call is done,
 * with the status that keel_stream_synchronize would return then; in |fn|, keel_last_error() has
 * the text of a failure. The operations of an open group are enqueued by keel_group_end, so they
 * are not among that work. |stream| may be destroyed meanwhile; the callback still comes. Never
 * blocks, and never calls |fn| itself. After a failure of this call |fn| is never called. Analogue:
 * cudaLaunchHostFunc; but later work does not wait for |fn|, and a failure is passed to |fn|.
 *
 * Callbacks run on one thread of Keel's, "keel-callbacks", which the first callback starts. Those
 * of one stream run in the order of the stream, those of different streams in the order in which
 * Keel sees the work end. A callback that takes long delays later callbacks, and nothing else. |fn|
 * must not throw. It may call every function of Keel except those that wait: functions with a
 * |timeout_ns|, keel_stream_destroy, functions that create or destroy a communicator, and
 * keel_shutdown return KEEL_FAILED_PRECONDITION there.
 *
 * keel_shutdown calls every callback whose work is not done with KEEL_ABORTED; that work may still
 * run then. keel_shutdown waits for callbacks up to the default deadline: KEEL_TIMED_OUT while one
 * has not returned. No callback runs after a keel_shutdown that returned KEEL_OK. A forked child
 * runs none. */
typedef void (*keel_done_fn)(void* user, keel_status status);
KEEL_API keel_status keel_stream_on_done(keel_stream stream, keel_done_fn fn, void* user);
/* The same once the last record of |event| is done, with the status that keel_event_wait would
 * return then. The event may be recorded again or destroyed meanwhile. The callback takes its place
 * among those of the recording stream; an event that was never recorded counts as done. */
KEEL_API keel_status keel_event_on_done(keel_event event, keel_done_fn fn, void* user);
/* Nanoseconds between two timing events that were recorded on one device and are both done. */
KEEL_API keel_status keel_event_elapsed(keel_event start, keel_event end,
                                        uint64_t* out_nanoseconds);

/* A gate is a fence that the host signals: Keel holds work enqueued behind a closed gate, with the
 * work's arguments copied, and submits the work when the gate opens. A gate opens once. If opened
 * with a failure, the streams behind the gate fail with that status. Destroying a closed gate opens
 * it with KEEL_CANCELLED. */
KEEL_API keel_status keel_gate_create(keel_gate* out_gate);
KEEL_API keel_status keel_gate_destroy(keel_gate gate);
KEEL_API keel_status keel_gate_open(keel_gate gate, keel_status status, const char* text);
KEEL_API keel_status keel_stream_wait_gate(keel_stream stream, keel_gate gate);

/* ---- copies ------------------------------------------------------------- */

/* Enqueues a copy of |size| bytes on |stream|, a stream of either device. One side may be
 * KEEL_HOST: pageable, pinned or registered memory that stays valid until the copy is done.
 * Pageable memory may be read before the call returns, whatever work the stream still has to do,
 * unless the device's plugin has the capability PAGEABLE_ASYNC; memory pinned for another device
 * counts as pageable. Ranges lie inside one allocation and do not overlap. |size| 0 does nothing.
 * Between backends the copy is staged through pinned memory in pipelined chunks. Analogue:
 * cudaMemcpyAsync, cudaMemcpyPeerAsync. */
KEEL_API keel_status keel_copy(keel_stream stream, keel_device destination_device,
                               void* destination, keel_device source_device, const void* source,
                               uint64_t size);
/* Fills |size| bytes, a multiple of |pattern_size|, with a pattern of 1, 2, 4 or 8 bytes. */
KEEL_API keel_status keel_fill(keel_stream stream, void* destination, const void* pattern,
                               uint32_t pattern_size, uint64_t size);

typedef uint32_t keel_copy_route;
enum {
  KEEL_ROUTE_LOCAL = 1, /* within one device */
  KEEL_ROUTE_HOST = 2,  /* host memory to or from a device */
  KEEL_ROUTE_PEER = 3,  /* the plugin's own peer copy */
  KEEL_ROUTE_ALIAS = 4, /* one copy, through the host alias of the other side */
  KEEL_ROUTE_STAGED = 5 /* two copies, through pinned buffers */
};

typedef struct keel_copy_path {
  keel_header header;
  keel_copy_route route;
  uint32_t steps;       /* number of times each byte is copied */
  uint64_t chunk_bytes; /* 0: in one piece */
  char text[256];       /* "vulkan:0 -> memory pinned for cuda:0, 4 MiB x 3 -> cuda:0" */
} keel_copy_path;

/* Describes the route that keel_copy takes between two devices (KEEL_HOST: the host). */
KEEL_API keel_status keel_copy_path_get(keel_device destination_device, keel_device source_device,
                                        keel_copy_path* out_path);

/* ---- operators ---------------------------------------------------------- */

/* Runs an operator (docs/operators.md) on the stream's device: checks the call against the
 * operator's schema, then enqueues the kernel with the best score. Where the backend has no kernel,
 * the CPU's kernel runs on staged copies; such a fallback is counted and can be forbidden. Keel
 * copies the call and its tensor structs; the tensors' memory stays valid until the work is done.
 */
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

/* Reports the kernel that keel_op_run would choose; KEEL_UNSUPPORTED when no kernel can run the
 * call. */
KEEL_API keel_status keel_op_plan_get(keel_device device, const keel_op_call* call,
                                      keel_op_plan* out_plan);
/* Lists all candidates, one a line, best first, with the score and the reason of a refusal.
 * |*in_out_size|: in, the room in bytes; out, the size of the text with its terminator, set with
 * KEEL_OUT_OF_RANGE too. */
KEEL_API keel_status keel_op_explain(keel_device device, const keel_op_call* call, char* out_text,
                                     uint64_t* in_out_size);
KEEL_API keel_status keel_op_find(const char* name, keel_op_id* out_op);
/* Name of |op|, such as "matmul"; NULL for an unknown number. Static string. */
KEEL_API const char* keel_op_name(keel_op_id op);

/* A kernel of the framework, for every device of one backend. */
typedef struct keel_custom_kernel {
  keel_header header;
  keel_op_id op;       /* an operator of docs/operators.md */
  uint32_t score;      /* kernels of plugins have 100 */
  const char* backend; /* "cpu" */
  const char* name;    /* for explain; copied */
  void* user;
  /* Returns non-zero when the kernel can run the call. */
  int (*accepts)(void* user, const keel_op_call* call);
  /* Enqueues the call on |stream|, with other keel functions or native ones. */
  keel_status (*run)(void* user, keel_stream stream, const keel_op_call* call);
} keel_custom_kernel;

KEEL_API keel_status keel_op_register(const keel_custom_kernel* kernel);
/* Number of fallbacks run so far in this process; and whether Keel refuses a fallback with
 * KEEL_UNSUPPORTED instead of running it. KEEL_FALLBACK=forbid refuses from the start. */
KEEL_API keel_status keel_op_fallback_count(uint64_t* out_count);
KEEL_API keel_status keel_op_forbid_fallback(int forbid);

/* ---- kernels of the caller ---------------------------------------------- */

/* Loads a binary for |device|: SPIR-V on Vulkan, a shared object on the CPU, other formats as docs/
 * lists them for the plugin. |data| is copied. KEEL_UNSUPPORTED for a format that the plugin does
 * not take, KEEL_INVALID_ARGUMENT for a binary that the plugin cannot read. Analogue:
 * cuModuleLoadData. */
KEEL_API keel_status keel_module_load(keel_device device, keel_binary_format format,
                                      const void* data, uint64_t size, keel_module* out_module);
/* Makes the module's kernels invalid; launches enqueued before still run. */
KEEL_API keel_status keel_module_unload(keel_module module);
/* Finds a kernel by name; KEEL_NOT_FOUND when the module has none of that name. The kernel lives as
 * long as the module and needs no destroying. Analogue: cuModuleGetFunction. */
KEEL_API keel_status keel_kernel_find(keel_module module, const char* name,
                                      keel_kernel* out_kernel);
/* Enqueues one launch. Grid and block sizes are at least 1 in each dimension. Every argument has a
 * value and a size; Keel copies both. Device memory passed by pointer stays valid until the launch
 * is done. Analogue: cuLaunchKernel. */
KEEL_API keel_status keel_kernel_launch(keel_stream stream, keel_kernel kernel,
                                        const keel_launch* launch);

/* ---- traces and profilers ----------------------------------------------- */

/* Writes the work of streams to |path| in the Chrome trace format, which Perfetto opens, until
 * keel_trace_stop or keel_shutdown. KEEL_TRACE=path starts a trace in keel_init. The path names a
 * new file, a file of the user, whose content is replaced, or a character device.
 * KEEL_PERMISSION_DENIED for a symbolic link, which is not followed, for a file of another user and
 * for a file with a second name (a hard link). KEEL_ALREADY_EXISTS while a trace is being written.
 */
KEEL_API keel_status keel_trace_start(const char* path);
/* Completes the file. KEEL_DATA_LOSS when the file could not be written in full: events were
 * dropped, and nothing else was harmed. */
KEEL_API keel_status keel_trace_stop(void);

/* Callbacks of a profiler. |begin| and |end| surround the enqueueing call on the calling thread;
 * |end| gets the |token| that |begin| returned. |name| is static ("copy", "matmul", "all_reduce").
 * Each callback may be NULL. Any thread calls them; they must be quick, and must not call Keel. For
 * NVTX: nvtxRangeStartA in |begin|, nvtxRangeEnd in |end|. */
typedef struct keel_profiler {
  keel_header header;
  void* user;
  uint64_t (*begin)(void* user, const char* name, keel_device device, keel_stream stream);
  void (*end)(void* user, uint64_t token, keel_status status);
  /* Bytes allocated on the device after an allocation or a free. */
  void (*memory)(void* user, keel_device device, uint64_t allocated_bytes);
} keel_profiler;

/* Sets the process's one profiler; NULL removes it. Returns once no call of the former profiler
 * runs, or KEEL_TIMED_OUT at the default deadline. */
KEEL_API keel_status keel_profiler_set(const keel_profiler* profiler);

/* ---- topology ----------------------------------------------------------- */

/* Describes the machine: packages, NUMA nodes, devices with PCI addresses and distances, network
 * interfaces; as JSON text (docs/operations.md), room as in keel_op_explain. |synthetic|: NULL for
 * this machine, or a description in hwloc's syntax ("pack:2 numa:2 core:4 pu:2");
 * KEEL_INVALID_ARGUMENT for text that is not in this syntax. */
KEEL_API keel_status keel_topology_get(const char* synthetic, char* out_text,
                                       uint64_t* in_out_size);
/* Number of the physical chip behind |device|, counted from 0. Devices of two backends with the
 * same PCI address or UUID have the same number. */
KEEL_API keel_status keel_device_chip(keel_device device, uint32_t* out_chip);

/* ---- communicators ------------------------------------------------------ */

/* Operations of an urgent communicator overtake those of normal communicators in the same process:
 * from when all ranks have called the urgent operation, a normal one yields between two chunks, or
 * every few MiB. Each yield lasts at most 10 ms, so that normal operations always progress. The
 * order of calls within a communicator stays the caller's. */
typedef uint32_t keel_comm_priority;
enum { KEEL_COMM_NORMAL = 0, KEEL_COMM_URGENT = 1 };

typedef struct keel_comm_options {
  keel_header header;
  int64_t timeout_ns;          /* of creation and of each operation; 0: the default deadline */
  uint64_t chunk_bytes;        /* the largest chunk that the host stages, rank 0's; 0: 2 MiB */
  uint32_t forbid_alias;       /* 1: always stage, never reach device memory by host alias */
  keel_comm_priority priority; /* the same on all ranks; a split does not inherit it */
  uint32_t forbid_native;      /* 1: this rank uses Keel's own algorithms, even where its device has
                                * a native library; KEEL_NATIVE=0 does so for all ranks */
  uint32_t reserved;
} keel_comm_options;

/* Creates one communicator over |count| devices of this process, any backend at any rank, the same
 * device more than once if need be; |out_comms| gets the handle of each rank. NULL options:
 * defaults. A failure names the rank that could not be created, and the reason. Analogue:
 * ncclCommInitAll. */
KEEL_API keel_status keel_comm_init_all(const keel_device* devices, uint32_t count,
                                        const keel_comm_options* options, keel_comm* out_comms);

/* Bootstrap address of a communicator with ranks in several processes: text without blanks, ended
 * by a zero. One rank creates the id and passes it to the others by any means. Analogue:
 * ncclUniqueId. */
typedef struct keel_unique_id {
  char text[128];
} keel_unique_id;

/* Creates an id for one communicator. The calling process serves the rendezvous until all ranks
 * have joined or the process ends. */
KEEL_API keel_status keel_unique_id_create(keel_unique_id* out_id);
/* Joins as rank |rank| of |world|, on |device|. Blocks until all ranks have joined, or until the
 * deadline in |options|; the failure then names the missing ranks. Every rank calls, from its own
 * thread or process, with the same |id| and |world|; a rank that joins twice and a rank with
 * another world are refused. Once all have joined, the failure of one rank reaches all ranks at
 * once: the failed rank gets its own status, the others KEEL_RANK_FAILED with the rank's name and
 * the reason. Analogue: ncclCommInitRank. */
KEEL_API keel_status keel_comm_init_rank(keel_device device, const keel_unique_id* id,
                                         uint32_t rank, uint32_t world,
                                         const keel_comm_options* options, keel_comm* out_comm);

/* The job's ranks, as the launcher of this process has set them in the environment. */
typedef struct keel_launch_info {
  keel_header header;
  uint32_t rank;
  uint32_t world;
  uint32_t local_rank; /* among the ranks of this host */
  uint32_t local_world;
  char launcher[32]; /* "keel run", "torchrun", "Open MPI", "MPICH", "Slurm" */
} keel_launch_info;

/* KEEL_NOT_FOUND when no launcher has set all of its variables (docs/operations.md);
 * KEEL_INVALID_ARGUMENT when a variable of a complete set makes no sense; the text names the
 * variable. */
KEEL_API keel_status keel_launch_info_get(keel_launch_info* out_info);
/* keel_comm_init_rank with rank, world and bootstrap address from the launcher: all processes of
 * the job call, each once. Analogue: torch.distributed.init_process_group("env://"). */
KEEL_API keel_status keel_comm_init_env(keel_device device, const keel_comm_options* options,
                                        keel_comm* out_comm);

/* For keel_comm_split: the rank joins no part. */
#define KEEL_NO_COLOR ((int32_t)-1)
/* Splits |comm|: ranks of one |color| (>= 0) form a new communicator, ordered by |key|, then by
 * rank. Every rank of |comm| calls, in the same order among its operations, and blocks until all
 * have called. For KEEL_NO_COLOR |*out_comm| is 0. A thread that drives several ranks cannot split:
 * each rank needs its own thread. A failure names ranks by their numbers in |comm|, or gives the
 * ranks of |comm| that its numbers stand for. Analogue: ncclCommSplit. */
KEEL_API keel_status keel_comm_split(keel_comm comm, int32_t color, int32_t key,
                                     const keel_comm_options* options, keel_comm* out_comm);
/* Creates another communicator of the same ranks; operations of the two are not ordered with each
 * other. Blocks as keel_comm_split does. With options.priority KEEL_COMM_URGENT: a second lane, for
 * small operations that a caller waits for. */
KEEL_API keel_status keel_comm_duplicate(keel_comm comm, const keel_comm_options* options,
                                         keel_comm* out_comm);
/* Waits until all operations that this rank has enqueued are done. Analogue: ncclCommFinalize. */
KEEL_API keel_status keel_comm_finalize(keel_comm comm, int64_t timeout_ns);
/* Finalizes by the default deadline, then leaves: operations in which the others still wait for
 * this rank fail with KEEL_ABORTED; operations that this rank has finished do not fail. The same
 * holds for a rank that keel_shutdown ends with nothing in flight, and, with KEEL_RANK_FAILED, for
 * a rank whose process ends. */
KEEL_API keel_status keel_comm_destroy(keel_comm comm);
/* Fails all operations in flight and all later ones, on all ranks, with KEEL_ABORTED. */
KEEL_API keel_status keel_comm_abort(keel_comm comm);
KEEL_API keel_status keel_comm_rank(keel_comm comm, uint32_t* out_rank, uint32_t* out_world);
/* Sets the deadline of this rank's operations from the next on; 0: the default deadline. */
KEEL_API keel_status keel_comm_timeout_set(keel_comm comm, int64_t timeout_ns);
/* Sets the deadline of this rank's next operation alone; 0: the default deadline. The messages of a
 * group are one operation. The deadline counts from when the operation's turn has come. */
KEEL_API keel_status keel_comm_timeout_next(keel_comm comm, int64_t timeout_ns);
/* KEEL_OK, or why the communicator failed: an abort, a rank that died, a rank that missed a
 * deadline. A failed communicator can only be destroyed. */
KEEL_API keel_status keel_comm_async_error(keel_comm comm);
/* Describes the path of each rank, the algorithms and the sizes in use, as JSON text; room as in
 * keel_op_explain. */
KEEL_API keel_status keel_comm_explain(keel_comm comm, char* out_text, uint64_t* in_out_size);

/* Returns the records of flight recorders, the last 1,024 operations of each rank, as JSON text
 * (docs/operations.md), for running and for killed processes. Room as in keel_op_explain, but the
 * text of a running job may need more a moment later. |path_or_pid|: a file, a folder of files, or
 * a process number in digits; NULL: the folder of this process's own files. Works without
 * keel_init. KEEL_NOT_FOUND where there is no record; KEEL_DATA_LOSS for a file that is not a
 * flight record; in a folder, such a file is listed with the reason instead. */
KEEL_API keel_status keel_flight_read(const char* path_or_pid, char* out_text,
                                      uint64_t* in_out_size);

/* Counters of one rank. */
typedef struct keel_comm_stats {
  keel_header header;
  uint64_t operations;
  uint64_t bytes_to_host;     /* staged device -> host */
  uint64_t bytes_to_device;   /* staged host -> device */
  uint64_t bytes_in_place;    /* buffer bytes read and written in place, without staging */
  uint64_t preempted;         /* times its operations yielded to urgent ones */
  uint64_t native_operations; /* run by native libraries, in whole or in part */
} keel_comm_stats;
KEEL_API keel_status keel_comm_stats_get(keel_comm comm, keel_comm_stats* out_stats);

/* Element types of collectives and messages, beside those of keel_dtype; operators and plugins have
 * none of these. A native library gets their elements as the type in parentheses. Other dtypes and
 * reductions than those listed fail with KEEL_UNSUPPORTED, which names both.
 *  KEEL_BOOL (uint8): one byte, 0 or 1. sum, max and bor give "or"; prod, min and band give "and";
 *    bxor. There is no avg and no premultiplied sum.
 *  KEEL_COMPLEX64, KEEL_COMPLEX128 (float32, float64; two an element): the real part, then the
 *    imaginary. sum, avg and premultiplied sums by real factors. */
enum { KEEL_BOOL = 32, KEEL_COMPLEX64 = 33, KEEL_COMPLEX128 = 34 };

/* Bitwise reductions, of integers and KEEL_BOOL; by Keel's own algorithms on every device. */
enum { KEEL_BAND = 16, KEEL_BOR = 17, KEEL_BXOR = 18 };

/* ---- collectives --------------------------------------------------------
 * Each rank calls once, in the same order on every rank, on a stream of its own device; one thread
 * may drive all ranks: no call depends on another rank's. An operation is done for a rank when
 * the rank's stream is done. Counts and offsets are elements of |dtype|; arrays have an entry a
 * rank and are copied. A NULL array of offsets: one piece after the other. In place as in NCCL
 * (send == receive; all_gather and gather: send == receive + rank * count; reduce_scatter and
 * scatter: receive == send + rank * count; all_to_all: send == receive). 16- and 8-bit types are
 * reduced in float32 and rounded once. Each element is produced on one rank, or by the same steps
 * on all ranks: all ranks hold the same bits. A mismatch of operation, count, dtype, reduction or
 * root between ranks fails the operation on all ranks and names the odd rank. Every call with a
 * live |comm| counts, even a refused call, whatever the reason: the n-th call of each rank matches
 * the n-th call of the others, which then fail with KEEL_RANK_FAILED and the rank's name. All ranks
 * therefore continue alike after a refused call, and no rank replaces a refused call by another. On
 * a CPU device, buffers may also be host memory registered with keel_host_register; on any device,
 * pinned memory of this device, unless a native library runs the operation (KEEL_UNSUPPORTED). */
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
/* Gathers |count| elements from each rank; |receive| has world * count. */
KEEL_API keel_status keel_all_gather(keel_comm comm, const void* send, void* receive,
                                     uint64_t count, keel_dtype dtype, keel_stream stream);
/* Gathers counts[i] elements from rank i, to receive + offsets[i]; the arrays are the same on all
 * ranks. */
KEEL_API keel_status keel_all_gather_v(keel_comm comm, const void* send, void* receive,
                                       const uint64_t* counts, const uint64_t* offsets,
                                       keel_dtype dtype, keel_stream stream);
/* Scatters |count| reduced elements to each rank; |send| has world * count. */
KEEL_API keel_status keel_reduce_scatter(keel_comm comm, const void* send, void* receive,
                                         uint64_t count, keel_dtype dtype, keel_reduction reduction,
                                         keel_stream stream);
/* Scatters counts[i] reduced elements to rank i, from send + offsets[i]; the arrays are the same on
 * all ranks. */
KEEL_API keel_status keel_reduce_scatter_v(keel_comm comm, const void* send, void* receive,
                                           const uint64_t* counts, const uint64_t* offsets,
                                           keel_dtype dtype, keel_reduction reduction,
                                           keel_stream stream);
/* Moves |count| elements from each rank to each rank; both buffers have world * count. */
KEEL_API keel_status keel_all_to_all(keel_comm comm, const void* send, void* receive,
                                     uint64_t count, keel_dtype dtype, keel_stream stream);
/* Sends send_counts[i] elements from send + send_offsets[i] to rank i, and receives
 * receive_counts[i] elements from rank i to receive + receive_offsets[i]. The count that a rank
 * sends must be the count that the peer receives. In place, where send == receive, counts and
 * offsets are the same both ways. */
KEEL_API keel_status keel_all_to_all_v(keel_comm comm, const void* send,
                                       const uint64_t* send_counts, const uint64_t* send_offsets,
                                       void* receive, const uint64_t* receive_counts,
                                       const uint64_t* receive_offsets, keel_dtype dtype,
                                       keel_stream stream);
/* Gathers |count| elements from each rank; |receive|, on the root only, has world * count. */
KEEL_API keel_status keel_gather(keel_comm comm, const void* send, void* receive, uint64_t count,
                                 keel_dtype dtype, uint32_t root, keel_stream stream);
/* The arrays are the same on all ranks. */
KEEL_API keel_status keel_gather_v(keel_comm comm, const void* send, void* receive,
                                   const uint64_t* counts, const uint64_t* offsets,
                                   keel_dtype dtype, uint32_t root, keel_stream stream);
/* Scatters |count| elements to each rank; |send|, on the root only, has world * count. */
KEEL_API keel_status keel_scatter(keel_comm comm, const void* send, void* receive, uint64_t count,
                                  keel_dtype dtype, uint32_t root, keel_stream stream);
/* The arrays are the same on all ranks. */
KEEL_API keel_status keel_scatter_v(keel_comm comm, const void* send, void* receive,
                                    const uint64_t* counts, const uint64_t* offsets,
                                    keel_dtype dtype, uint32_t root, keel_stream stream);
KEEL_API keel_status keel_barrier(keel_comm comm, keel_stream stream);

/* Forms with a buffer of its own for each rank, in arrays that are copied; no flat buffer is needed
 * anywhere. all_gather_list and all_to_all_list are one message each way for each pair of ranks,
 * and are matched as messages are: they fail like messages whose counts or dtypes differ. No buffer
 * that is received may overlap another, except that receive[rank] may be |send| in all_gather_list,
 * and the same pointer as send[rank] in all_to_all_list. reduce_scatter_list is one keel_reduce for
 * each rank, in the order of the ranks. |receive_counts| NULL: the same as |send_counts|. */
KEEL_API keel_status keel_all_gather_list(keel_comm comm, const void* send, void* const* receive,
                                          uint64_t count, keel_dtype dtype, keel_stream stream);
KEEL_API keel_status keel_all_to_all_list(keel_comm comm, const void* const* send,
                                          const uint64_t* send_counts, void* const* receive,
                                          const uint64_t* receive_counts, keel_dtype dtype,
                                          keel_stream stream);
KEEL_API keel_status keel_reduce_scatter_list(keel_comm comm, const void* const* send,
                                              void* receive, uint64_t count, keel_dtype dtype,
                                              keel_reduction reduction, keel_stream stream);

/* Messages from this rank to |peer| and back: the n-th send to a peer matches the peer's n-th
 * receive from this rank, of the same dtype and count. Analogue: ncclSend, ncclRecv. */
KEEL_API keel_status keel_send(keel_comm comm, const void* send, uint64_t count, keel_dtype dtype,
                               uint32_t peer, keel_stream stream);
KEEL_API keel_status keel_recv(keel_comm comm, void* receive, uint64_t count, keel_dtype dtype,
                               uint32_t peer, keel_stream stream);
/* Sends and receives at once, without a deadlock between neighbours. */
KEEL_API keel_status keel_send_recv(keel_comm comm, const void* send, uint64_t send_count,
                                    uint32_t to, void* receive, uint64_t receive_count,
                                    uint32_t from, keel_dtype dtype, keel_stream stream);
/* Calls of this thread between keel_group_start and keel_group_end are enqueued at the end of the
 * outermost group; sends and receives of one communicator and stream then proceed together, in any
 * order: no receive may overlap memory that another message sends or receives. A refused call
 * returns its failure at once, and the group goes on; the other ranks learn of the refusal when the
 * group ends. Within a group, waits (for a stream, an event, a communicator's end or split) return
 * KEEL_FAILED_PRECONDITION. Analogue: ncclGroupStart, ncclGroupEnd. */
KEEL_API keel_status keel_group_start(void);
KEEL_API keel_status keel_group_end(void);

/* Creates a reduction that multiplies this rank's data by |factor| before the sum: a value for
 * |reduction| above, valid for |comm| until it is destroyed, at the latest with |comm|. Ranks may
 * have different factors. A communicator has up to 65,536 at a time; KEEL_OUT_OF_RANGE beyond.
 * Analogue: ncclRedOpCreatePreMulSum. */
KEEL_API keel_status keel_premul_sum_create(keel_comm comm, double factor,
                                            keel_reduction* out_reduction);
/* Destroys the reduction for later calls; operations called before still use the factor, also those
 * of an open group. KEEL_INVALID_ARGUMENT for a number that is none of |comm|, or no longer.
 * Analogue: ncclRedOpDestroy. */
KEEL_API keel_status keel_premul_sum_destroy(keel_comm comm, keel_reduction reduction);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_KEEL_H_ */
