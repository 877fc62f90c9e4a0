// SPDX-License-Identifier: Apache-2.0
/* Keel plugin ABI, version 0: the one header a chip vendor implements.
 *
 * A plugin is a shared library that exports one symbol, keel_plugin_query_v0, and hides everything
 * else. Core calls the symbol once, reads the tables that it returns, and from then on reaches the
 * chip only through them. docs/abi-coverage.md lists the native call behind each slot;
 * docs/porting.md walks through a first plugin.
 *
 * Rules that hold for every function here, unless the function's comment says otherwise:
 *  - Threads: any thread may call, and several threads at once on different objects.
 *    Core never enqueues from two threads at once on one stream; core may query,
 *    synchronize or wait for an event while another thread enqueues. A plugin whose SDK
 *    keeps a current device per thread sets that device on entry.
 *  - Blocking: a function must not wait for work on the device unless its
 *    comment says "blocks".
 *  - Failure: the call had no effect and the objects stay usable. To add a text, a plugin
 *    calls host->set_error just before it returns.
 *  - Ownership: only plain values and handles cross. The creator of a
 *    handle destroys it; pointers passed in are valid for the call only.
 *  - No C++ type, exception, errno or signal crosses.
 *  - Misuse (NULL, foreign handles, overlapping ranges, wrong sizes) is caught
 *    by core before the call; a plugin checks only what the plugin alone can know.
 *  - Device pointers are addresses in the device's own space. Two devices may
 *    use equal addresses, and the host must not dereference them.
 *
 * This header alone states what a plugin must have; the comment of each slot says "Required" or
 * "Optional".
 *  - Required: core refuses to load a plugin in which such a slot is NULL, or beyond the
 *    size of its table. A plugin that reports no device needs create_instance,
 *    destroy_instance and the device table's count, info, open and close. A plugin with
 *    devices also needs alloc and free; create, destroy and copy of streams; event_create,
 *    event_destroy, event_record, event_query and stream_wait_event. A kernel or op
 *    table, if present, needs every slot.
 *  - Optional: NULL where the chip has nothing for the slot. Core then emulates the slot as
 *    the comment says, with the same meaning, or returns KEEL_UNSUPPORTED.
 *  - Loading requires no capability (KEEL_CAPABILITY_*). `keel conform` certifies a level only
 *    for a device with the level's capabilities: KEEL_CAPABILITY_PINNED for core and memory,
 *    KEEL_CAPABILITY_ASYNC for async, KEEL_CAPABILITY_OPS, KEEL_CAPABILITY_KERNELS and
 *    KEEL_CAPABILITY_CCL for the levels of those names.
 *
 * v0 may still change. Keel freezes v0 as v1 once the hardware of two vendors has certified a
 * plugin: docs/abi-stability.md. */
#ifndef KEEL_ABI_H_
#define KEEL_ABI_H_

#include <keel/ops.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KEEL_ABI_MAJOR 0
#define KEEL_PLUGIN_QUERY_SYMBOL "keel_plugin_query_v0"

#if defined(__GNUC__)
#define KEEL_EXPORT __attribute__((visibility("default")))
#else
#define KEEL_EXPORT
#endif

/* ---- vocabulary shared with keel.h ------------------------------------ */

/* Status of a call. The first sixteen are gRPC's numbers. */
typedef int32_t keel_status;
enum {
  KEEL_OK = 0,
  KEEL_CANCELLED = 1,
  KEEL_UNKNOWN = 2,
  KEEL_INVALID_ARGUMENT = 3,
  KEEL_TIMED_OUT = 4, /* the deadline of a wait passed; the awaited work goes on */
  KEEL_NOT_FOUND = 5,
  KEEL_ALREADY_EXISTS = 6,
  KEEL_PERMISSION_DENIED = 7,
  KEEL_OUT_OF_MEMORY = 8,
  KEEL_FAILED_PRECONDITION = 9,
  KEEL_ABORTED = 10,
  KEEL_OUT_OF_RANGE = 11,
  KEEL_UNSUPPORTED = 12, /* not offered; nothing was done */
  KEEL_INTERNAL = 13,
  KEEL_UNAVAILABLE = 14,
  KEEL_DATA_LOSS = 15,
  KEEL_NOT_READY = 32,   /* answer of a query, not a failure */
  KEEL_DEVICE_LOST = 33, /* sticky: every later call on the device returns it */
  KEEL_RANK_FAILED = 34,
  KEEL_INVALID_HANDLE = 35,
  KEEL_FORKED = 36 /* the caller is the child of a fork of the process that set Keel up */
};

/* Element types. fp8 is OCP's e4m3fn and e5m2, not the fnuz forms. */
typedef uint32_t keel_dtype;
enum {
  KEEL_DTYPE_INVALID = 0,
  KEEL_INT8 = 1,
  KEEL_INT16 = 2,
  KEEL_INT32 = 3,
  KEEL_INT64 = 4,
  KEEL_UINT8 = 5,
  KEEL_UINT16 = 6,
  KEEL_UINT32 = 7,
  KEEL_UINT64 = 8,
  KEEL_FLOAT16 = 9,
  KEEL_BFLOAT16 = 10,
  KEEL_FLOAT32 = 11,
  KEEL_FLOAT64 = 12,
  KEEL_FLOAT8_E4M3FN = 13,
  KEEL_FLOAT8_E5M2 = 14,
  KEEL_DTYPE_COUNT = 15
};

enum { KEEL_MAX_RANK = 8 };

/* A view of device memory. The first element lies at (char*)data + byte_offset.
 * |strides| are in elements and may be 0 (broadcast) but not negative. A tensor
 * of rank 0 has one element; a tensor with a 0 in its shape has none, and its |data| may be NULL.
 * Every call that takes a tensor borrows it; the memory belongs to the code that allocated it.
 * Analogue: DLTensor, aclTensor. */
typedef struct keel_tensor {
  uint32_t size; /* sizeof(keel_tensor) */
  keel_dtype dtype;
  uint32_t rank; /* 0 .. KEEL_MAX_RANK */
  uint32_t reserved;
  void* data;
  uint64_t byte_offset;
  int64_t shape[KEEL_MAX_RANK];
  int64_t strides[KEEL_MAX_RANK];
} keel_tensor;

/* Kind of a device. */
typedef uint32_t keel_device_type;
enum {
  KEEL_DEVICE_CPU = 1, /* kernels run on the host's cores */
  KEEL_DEVICE_GPU = 2,
  KEEL_DEVICE_NPU = 3,
  KEEL_DEVICE_OTHER = 4
};

/* Kinds of memory. */
typedef uint32_t keel_memory_kind;
enum {
  KEEL_MEMORY_DEVICE = 0,
  KEEL_MEMORY_PINNED = 1, /* host memory, copied to and from the device without a bounce buffer */
  KEEL_MEMORY_MANAGED = 2 /* one address for host and device */
};

/* Reductions. KEEL_PREMUL_SUM multiplies by a factor before it adds. */
typedef uint32_t keel_reduction;
enum {
  KEEL_SUM = 0,
  KEEL_PROD = 1,
  KEEL_MIN = 2,
  KEEL_MAX = 3,
  KEEL_AVG = 4,
  KEEL_PREMUL_SUM = 5,
  KEEL_REDUCTION_COUNT = 6
};

typedef uint32_t keel_log_level;
enum {
  KEEL_LOG_TRACE = 0,
  KEEL_LOG_DEBUG = 1,
  KEEL_LOG_INFO = 2,
  KEEL_LOG_WARNING = 3,
  KEEL_LOG_ERROR = 4,
  KEEL_LOG_OFF = 5
};

/* Extent of packed weights (KEEL_OP_PACK_WEIGHTS) for an extent of the weights: the next multiple
 * of 64, so that the panel sizes that chips read fastest divide it. */
#define KEEL_PACKED_EXTENT(extent) (((extent) + 63) / 64 * 64)

/* One attribute of an operator; the operator's schema defines which member is read. */
typedef union keel_attribute {
  int64_t i;
  double f;
} keel_attribute;

/* ---- structs that cross ------------------------------------------------- */

/* First member of every struct that crosses, except keel_tensor. |size| is the size that the writer
 * was compiled with and works as the minor version: members are only ever appended. |next| chains
 * extensions; a reader skips an unknown type, unless the type has KEEL_STRUCT_REQUIRED set: then
 * the reader refuses the struct. */
typedef struct keel_header {
  uint32_t size;
  uint32_t type;
  const void* next;
} keel_header;

enum {
  KEEL_STRUCT_REQUIRED = 0x40000000, /* flag: refuse the whole struct if unknown */
  KEEL_STRUCT_HOST = 1,
  KEEL_STRUCT_PLUGIN = 2,
  KEEL_STRUCT_INSTANCE_SETTINGS = 3,
  KEEL_STRUCT_DEVICE_TABLE = 4,
  KEEL_STRUCT_MEMORY_TABLE = 5,
  KEEL_STRUCT_STREAM_TABLE = 6,
  KEEL_STRUCT_KERNEL_TABLE = 7,
  KEEL_STRUCT_OP_TABLE = 8,
  KEEL_STRUCT_CCL_TABLE = 9,
  KEEL_STRUCT_DEVICE_INFO = 10,
  KEEL_STRUCT_DEVICE_HEALTH = 11,
  KEEL_STRUCT_MEMORY_EXPORT = 12,
  KEEL_STRUCT_OP_CALL = 13,
  KEEL_STRUCT_OP_SUPPORT = 14,
  KEEL_STRUCT_LAUNCH = 15,
  KEEL_STRUCT_CCL_CALL = 16,
  KEEL_STRUCT_CCL_INFO = 17,
  KEEL_STRUCT_TEST_TABLE = 18,
  /* structs of keel.h */
  KEEL_STRUCT_INIT_OPTIONS = 64,
  KEEL_STRUCT_BACKEND_INFO = 65,
  KEEL_STRUCT_MEMORY_INFO = 66,
  KEEL_STRUCT_COPY_PATH = 67,
  KEEL_STRUCT_OP_PLAN = 68,
  KEEL_STRUCT_COMM_OPTIONS = 69,
  KEEL_STRUCT_COMM_STATS = 70,
  KEEL_STRUCT_CUSTOM_KERNEL = 71,
  KEEL_STRUCT_MEMORY_STATS = 72,
  KEEL_STRUCT_PROFILER = 73,
  KEEL_STRUCT_LAUNCH_INFO = 74
};

/* Whether |table| (a pointer to |type|, or NULL) has the slot: present in the struct that the
 * writer was compiled with, and not NULL. */
#define KEEL_HAS(type, table, slot)                                                           \
  ((table) != NULL && (table)->header.size >= offsetof(type, slot) + sizeof((table)->slot) && \
   (table)->slot != NULL)

/* Opaque objects of a plugin. */
typedef struct keel_plugin_instance keel_plugin_instance;
typedef struct keel_plugin_device keel_plugin_device;
typedef struct keel_plugin_stream keel_plugin_stream;
typedef struct keel_plugin_event keel_plugin_event;
typedef struct keel_plugin_gate keel_plugin_gate;
typedef struct keel_plugin_module keel_plugin_module;
typedef struct keel_plugin_kernel keel_plugin_kernel;
typedef struct keel_plugin_import keel_plugin_import;
typedef struct keel_plugin_comm keel_plugin_comm;
typedef struct keel_plugin_hold keel_plugin_hold;

/* Called once when the awaited work is done or has failed. Any thread may run the callback, which
 * must return quickly and must not call the plugin. */
typedef void (*keel_notify_fn)(void* user, keel_status status);

/* Services of core for the plugin; valid while the plugin is loaded, until the process ends. Any
 * thread may call them. */
typedef struct keel_host {
  keel_header header;
  void* context; /* first argument of each function below */
  void (*log)(void* context, keel_log_level level, const char* text);
  /* Text for the status that the calling thread is about to return; copied. */
  void (*set_error)(void* context, const char* text);
} keel_host;

/* Settings of one instance: |count| pairs of strings. A plugin refuses an unknown key with
 * KEEL_INVALID_ARGUMENT and names the key. "library_folder" is the folder of the vendor's SDK
 * libraries; "conformance" = "1" turns on the keel_test_table of a plugin that has one. */
typedef struct keel_instance_settings {
  keel_header header;
  uint32_t count;
  uint32_t reserved;
  const char* const* keys;
  const char* const* values;
} keel_instance_settings;

/* ---- device ------------------------------------------------------------- */

/* Capabilities. A set bit promises that the slots behind it work; conformance fails a capability
 * whose slots refuse, and lists missing capabilities as unsupported. */
enum {
  KEEL_CAPABILITY_PINNED = 1 << 0,         /* alloc of KEEL_MEMORY_PINNED */
  KEEL_CAPABILITY_MANAGED = 1 << 1,        /* alloc of KEEL_MEMORY_MANAGED */
  KEEL_CAPABILITY_HOST_REGISTER = 1 << 2,  /* host_register, host_unregister */
  KEEL_CAPABILITY_HOST_ALIAS = 1 << 3,     /* host_alias of device memory */
  KEEL_CAPABILITY_EXPORT = 1 << 4,         /* export_memory, import_memory */
  KEEL_CAPABILITY_PEER_COPY = 1 << 5,      /* copy_peer among devices of the instance */
  KEEL_CAPABILITY_ASYNC = 1 << 6,          /* enqueueing returns before the work is done */
  KEEL_CAPABILITY_TIMING = 1 << 7,         /* timing events */
  KEEL_CAPABILITY_NOTIFY = 1 << 8,         /* event_notify */
  KEEL_CAPABILITY_PRIORITY = 1 << 9,       /* streams of different priority differ in urgency */
  KEEL_CAPABILITY_NATIVE_GATE = 1 << 10,   /* gate_create, gate_open, stream_wait_gate */
  KEEL_CAPABILITY_STREAM_ALLOC = 1 << 11,  /* alloc_on_stream, free_on_stream */
  KEEL_CAPABILITY_KERNELS = 1 << 12,       /* the kernel table */
  KEEL_CAPABILITY_OPS = 1 << 13,           /* the op table: at least fill, add and cast */
  KEEL_CAPABILITY_CCL = 1 << 14,           /* the ccl table */
  KEEL_CAPABILITY_MEMORY_INFO = 1 << 15,   /* device memory_info */
  KEEL_CAPABILITY_FILL = 1 << 16,          /* fill, with every pattern size */
  KEEL_CAPABILITY_PAGEABLE_ASYNC = 1 << 17 /* copies of pageable memory do not block either */
};

/* Fixed properties of a device. Text is UTF-8 and 0-terminated. */
typedef struct keel_device_info {
  keel_header header;
  char name[128];        /* the vendor's name for the device */
  char architecture[64]; /* name in the vendor's compiler: "sm_90", "gfx942", "avx512" */
  char pci_address[32];  /* "0000:3b:00.0"; empty without PCI */
  char driver[128];      /* driver or SDK version, and the folder that it was loaded from */
  uint8_t uuid[16];      /* zero when unknown */
  keel_device_type type;
  int32_t numa_node;        /* -1 when unknown */
  uint64_t capabilities;    /* KEEL_CAPABILITY_* */
  uint64_t memory_bytes;    /* 0 when unknown: core bases no decision on it */
  uint64_t max_alloc_bytes; /* of one allocation, <= memory_bytes if known; 0: no limit */
  uint32_t alignment;       /* of every device allocation: a power of two >= 64 */
  uint32_t compute_units;   /* cores, SMs, XVEs; 0 when unknown */
  uint32_t hardware_queues; /* 1: all streams share one queue; 0 when unknown */
  uint32_t copy_alignment;  /* copies are fastest, or only async, on multiples of it */
} keel_device_info;

typedef struct keel_device_health {
  keel_header header;
  uint32_t ok;            /* 0: do not use; |text| gives the reason */
  uint32_t throttled;     /* 1: clocks are held down by heat or power */
  uint64_t corrected_ecc; /* since the driver was loaded */
  uint64_t uncorrected_ecc;
  char text[256];
} keel_device_health;

typedef struct keel_device_table {
  keel_header header;
  /* Number of devices. 0 is no failure: then call host->set_error with one sentence that gives the
   * reason. May block for the SDK's start. Required. Native: cuDeviceGetCount, aclrtGetDeviceCount,
   * vkEnumeratePhysicalDevices. */
  keel_status (*count)(keel_plugin_instance* instance, uint32_t* out_count);
  /* Fills |out_info| up to header.size; KEEL_NOT_FOUND past count. Works before open. Required. */
  keel_status (*info)(keel_plugin_instance* instance, uint32_t ordinal, keel_device_info* out_info);
  /* Makes a device usable; core opens each device at most once at a time. May block. Required.
   * Native: cuDevicePrimaryCtxRetain, vkCreateDevice, aclrtSetDevice. */
  keel_status (*open)(keel_plugin_instance* instance, uint32_t ordinal,
                      keel_plugin_device** out_device);
  /* Core has destroyed all objects of the device before. May block. Required. */
  void (*close)(keel_plugin_device* device);
  /* Free and total device memory in bytes. Optional (KEEL_CAPABILITY_MEMORY_INFO); without it
   * keel_device_memory_info returns KEEL_UNSUPPORTED. */
  keel_status (*memory_info)(keel_plugin_device* device, uint64_t* out_free, uint64_t* out_total);
  /* Optional; keel_device_health_get is KEEL_UNSUPPORTED without it. Native: NVML, dcmi, xpuml. */
  keel_status (*health)(keel_plugin_device* device, keel_device_health* out_health);
  /* A native handle for interoperation, owned by the plugin; |which| is 0 for the main handle
   * (CUcontext, VkDevice, aclrtContext), other numbers are listed in the plugin's documentation.
   * Optional. */
  keel_status (*native_handle)(keel_plugin_device* device, uint32_t which, void** out_handle);
} keel_device_table;

/* ---- memory ------------------------------------------------------------- */

typedef uint32_t keel_export_kind;
enum {
  KEEL_EXPORT_MEMFD = 1,  /* a memfd that the importer maps: CPU arenas */
  KEEL_EXPORT_DMABUF = 2, /* a dma-buf for NICs and other drivers */
  KEEL_EXPORT_OPAQUE = 3  /* |bytes|, meaningful to the same plugin in another process */
};

/* Lets another process, or another driver, reach an allocation. */
typedef struct keel_memory_export {
  keel_header header;
  keel_export_kind kind;
  int32_t fd;      /* the receiver of the struct owns and closes it; -1 if there is none */
  uint64_t offset; /* of the exported address inside the exported object */
  uint64_t bytes_size;
  uint64_t object_size; /* of the whole exported object */
  uint8_t bytes[128];   /* the opaque handle; the first |bytes_size| are used */
} keel_memory_export;

/* Uses of an allocation beyond this device's own work, for drivers that need to know beforehand.
 * Other plugins ignore them. Core passes 0 so far. */
enum { KEEL_USAGE_EXPORT = 1 << 0, KEEL_USAGE_PEER = 1 << 1 };

typedef struct keel_memory_table {
  keel_header header;
  /* Allocates |size| > 0 bytes, aligned to keel_device_info.alignment; |usage|: KEEL_USAGE_*.
   * KEEL_OUT_OF_MEMORY when memory runs out. May block. Not zeroed. Required for
   * KEEL_MEMORY_DEVICE; core asks for the other kinds only with the capabilities
   * KEEL_CAPABILITY_PINNED and KEEL_CAPABILITY_MANAGED. Without pinned memory, copies to another
   * backend use that backend's pinned memory, and core refuses fills that |fill| cannot do. Native:
   * cuMemAlloc/cuMemHostAlloc, aclrtMalloc, xpu_malloc, vkAllocateMemory. */
  keel_status (*alloc)(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                       uint32_t usage, void** out_pointer);
  /* Frees |pointer|, which alloc returned with the same |kind|; no work uses the memory any more:
   * core has waited. May synchronise with the device. Required. */
  keel_status (*free)(keel_plugin_device* device, keel_memory_kind kind, void* pointer);
  /* Stream-ordered forms; either form of free takes memory of either form of alloc. Core calls
   * neither so far. Optional (KEEL_CAPABILITY_STREAM_ALLOC). Native: cuMemAllocAsync. */
  keel_status (*alloc_on_stream)(keel_plugin_stream* stream, uint64_t size, void** out_pointer);
  keel_status (*free_on_stream)(keel_plugin_stream* stream, void* pointer);
  /* Pins host memory of the caller until host_unregister. |out_device_pointer| gets the device's
   * address of the memory, or NULL where the device has none. Optional
   * (KEEL_CAPABILITY_HOST_REGISTER). Native: cuMemHostRegister. */
  keel_status (*host_register)(keel_plugin_device* device, void* pointer, uint64_t size,
                               void** out_device_pointer);
  keel_status (*host_unregister)(keel_plugin_device* device, void* pointer);
  /* Returns an address through which the host may read and write |size| bytes of device memory at
   * |pointer|, coherent once the device's work is done; valid until the memory is freed. The
   * address need not equal |pointer|. Optional (KEEL_CAPABILITY_HOST_ALIAS): CPU arenas, integrated
   * GPUs. Must be as fast for the host as the host's own memory; write-combined windows do not
   * qualify. With an alias, collectives of ranks in one process read and add in place, and copies
   * from and to devices with PAGEABLE_ASYNC move each byte once instead of staging it: an
   * all_reduce of 1 KiB with a CPU rank took 25 us instead of 238 us. */
  keel_status (*host_alias)(keel_plugin_device* device, void* pointer, uint64_t size,
                            void** out_alias);
  /* Exports |pointer| as |out_export|; |kind| is the form that the caller can use, and
   * |importer_pid| the importing process (0: unknown), for drivers that require it.
   * Optional (KEEL_CAPABILITY_EXPORT). Native: cuIpcGetMemHandle, cuMemGetHandleForAddressRange,
   * vkGetMemoryFdKHR, aclrtIpcMemGetExportKey. */
  keel_status (*export_memory)(keel_plugin_device* device, void* pointer, uint64_t size,
                               keel_export_kind kind, int64_t importer_pid,
                               keel_memory_export* out_export);
  keel_status (*import_memory)(keel_plugin_device* device, const keel_memory_export* exported,
                               void** out_pointer, keel_plugin_import** out_import);
  keel_status (*close_import)(keel_plugin_device* device, keel_plugin_import* import);
  /* Gives kernels of |device| access to memory of |peer|, a device of the same instance; copy_peer
   * works without it. KEEL_UNSUPPORTED where the links allow none. Optional; core does not call it
   * so far. Native: cuCtxEnablePeerAccess, aclrtDeviceEnablePeerAccess. */
  keel_status (*peer_enable)(keel_plugin_device* device, keel_plugin_device* peer);
} keel_memory_table;

/* ---- streams and events ------------------------------------------------- */

typedef uint32_t keel_copy_kind;
enum {
  KEEL_COPY_HOST_TO_DEVICE = 0,
  KEEL_COPY_DEVICE_TO_HOST = 1,
  KEEL_COPY_DEVICE_TO_DEVICE = 2 /* within one device */
};

enum { KEEL_EVENT_TIMING = 1 << 0 };

/* A stream is an in-order queue of one device; between two streams only events order anything.
 *
 * Asynchronous failure: once work on a stream has failed, work enqueued behind it does not run, and
 * query and synchronize of the stream, and query and wait of every event recorded on the stream
 * afterwards, return that failure each time, until the stream is destroyed; core creates another. A
 * function that enqueues returns KEEL_OK, or the failure if the plugin already knows it.
 *
 * A failed event is over: event_query, event_wait (whatever its timeout) and event_notify give the
 * failure at once, each time. stream_wait_event returns KEEL_OK, and the waiting stream must not
 * hang: it may go on, or fail as the SDK does, with the event's status or KEEL_INTERNAL; then that
 * failure sticks to it. Core records which streams waited for which events, and returns the failure
 * wherever the host waits for work behind it. */
typedef struct keel_stream_table {
  keel_header header;
  /* |priority|: 0 normal, negative more urgent, positive less; clamped.
   * Required. Native: cuStreamCreateWithPriority, aclrtCreateStreamWithConfig. */
  keel_status (*create)(keel_plugin_device* device, int32_t priority,
                        keel_plugin_stream** out_stream);
  /* The stream's work is done or has failed before, and no event recorded on the stream will be
   * used any more: core keeps streams alive for their events. Required. */
  void (*destroy)(keel_plugin_stream* stream);
  /* wrap creates a stream object around a native stream, which the caller owns and which outlives
   * the object; unwrap returns the native stream inside a stream. Optional. */
  keel_status (*wrap)(keel_plugin_device* device, void* native, keel_plugin_stream** out_stream);
  keel_status (*unwrap)(keel_plugin_stream* stream, void** out_native);
  /* KEEL_OK when all work is done, KEEL_NOT_READY, or the failure. Optional; without this slot core
   * records and queries an event. Native: cuStreamQuery. */
  keel_status (*query)(keel_plugin_stream* stream);
  /* Blocks until all work is done, or KEEL_TIMED_OUT after |timeout_ns| >= 0. Optional; without
   * this slot core waits for an event. */
  keel_status (*synchronize)(keel_plugin_stream* stream, int64_t timeout_ns);
  /* Enqueues a copy of |size| > 0 bytes. Ranges do not overlap. Host memory may be pageable; then
   * the call may block until that memory has been read, but never on another stream. The memory
   * stays valid until the copy is done. Required. Native: cuMemcpyAsync, aclrtMemcpyAsync,
   * xpu_memcpy_async. */
  keel_status (*copy)(keel_plugin_stream* stream, keel_copy_kind kind, void* destination,
                      const void* source, uint64_t size);
  /* Enqueues a copy between two devices of the instance on a stream of either.
   * Optional (KEEL_CAPABILITY_PEER_COPY). Native: cuMemcpyPeerAsync. */
  keel_status (*copy_peer)(keel_plugin_stream* stream, keel_plugin_device* destination_device,
                           void* destination, keel_plugin_device* source_device, const void* source,
                           uint64_t size);
  /* Fills |size| bytes with a pattern of |pattern_size| = 1, 2, 4 or 8 bytes; size and destination
   * are multiples of |pattern_size|. Optional; without KEEL_CAPABILITY_FILL core passes patterns of
   * one byte only (ACL has no others), and for longer patterns copies from a filled buffer. Native:
   * cuMemsetD8Async. */
  keel_status (*fill)(keel_plugin_stream* stream, void* destination, const void* pattern,
                      uint32_t pattern_size, uint64_t size);

  /* A native gate: the stream waits in the device's queue until the host opens the gate, which
   * cannot open with an error. Optional (KEEL_CAPABILITY_NATIVE_GATE). Core uses none so far, and
   * would only if all work that the opening depends on was submitted before: a waiting command can
   * stall other streams of the same hardware queue. Native: cuStreamWaitValue64, a host-signalled
   * Level Zero event or timeline semaphore. */
  keel_status (*gate_create)(keel_plugin_device* device, keel_plugin_gate** out_gate);
  void (*gate_destroy)(keel_plugin_gate* gate);
  keel_status (*gate_open)(keel_plugin_gate* gate);
  keel_status (*stream_wait_gate)(keel_plugin_stream* stream, keel_plugin_gate* gate);

  /* Events. Core keeps a pool of events: an event is recorded on streams of its own device only,
   * waited for or queried only once recorded, and recorded again only when the event and every wait
   * on it are done. |flags|: KEEL_EVENT_*. event_create, event_destroy and event_record are
   * required. Native: cuEvent*, aclrtCreateEventExWithFlag, timeline semaphore values. */
  keel_status (*event_create)(keel_plugin_device* device, uint32_t flags,
                              keel_plugin_event** out_event);
  void (*event_destroy)(keel_plugin_event* event);
  keel_status (*event_record)(keel_plugin_event* event, keel_plugin_stream* stream);
  /* KEEL_OK when done, KEEL_NOT_READY, or the failure of the stream before the event. Required,
   * also beside event_notify: core queries after each callback, and to find lost callbacks. For a
   * chip that has no query, a thread of the plugin waits, and event_query returns the result. */
  keel_status (*event_query)(keel_plugin_event* event);
  /* Blocks up to |timeout_ns| >= 0, then KEEL_TIMED_OUT. Optional; without this slot core polls
   * event_query every 1 to 50 us. */
  keel_status (*event_wait)(keel_plugin_event* event, int64_t timeout_ns);
  /* Calls |fn| once when |event|, which has been recorded, is done or has failed; at once if
   * |event| already is. Optional (KEEL_CAPABILITY_NOTIFY); without this slot core polls event_query
   * every 20 to 200 us. A lost callback delays streams of other backends by up to a second: core
   * then calls event_query, and logs an error that names the device. Native: a waiting thread of
   * the plugin; cuLaunchHostFunc alone is not enough, since CUDA skips the function on failure. */
  keel_status (*event_notify)(keel_plugin_event* event, keel_notify_fn fn, void* user);
  /* Work enqueued on |stream| from now on runs after |event|, which has been recorded on another
   * stream of the same device. Never blocks the host. Required. */
  keel_status (*stream_wait_event)(keel_plugin_stream* stream, keel_plugin_event* event);
  /* Nanoseconds from |start| to |end|, both timing events and both done. Optional
   * (KEEL_CAPABILITY_TIMING). */
  keel_status (*event_elapsed)(keel_plugin_event* start, keel_plugin_event* end,
                               uint64_t* out_nanoseconds);
} keel_stream_table;

/* ---- kernels ------------------------------------------------------------ */

typedef uint32_t keel_binary_format;
enum {
  KEEL_BINARY_SPIRV = 1,
  KEEL_BINARY_CUBIN = 2, /* also PTX and fat binaries */
  KEEL_BINARY_HSACO = 3,
  KEEL_BINARY_SHARED_OBJECT = 4,
  KEEL_BINARY_VENDOR = 5 /* the plugin's own format; certified by keel conform run --kernels */
};

/* |arguments|: |argument_count| pointers to values of |argument_sizes| bytes. */
typedef struct keel_launch {
  keel_header header;
  uint32_t grid[3];              /* blocks, not threads, along each axis */
  uint32_t block[3];             /* threads of a block */
  uint32_t dynamic_shared_bytes; /* of a block: OpenCL's local pointer, no argument of its own */
  uint32_t argument_count;
  const void* const* arguments; /* device memory: the address, a value of 8 bytes */
  const uint32_t* argument_sizes;
} keel_launch;

/* Kernel binaries of the user. The table is optional as a whole (KEEL_CAPABILITY_KERNELS). */
typedef struct keel_kernel_table {
  keel_header header;
  keel_status (*load)(keel_plugin_device* device, keel_binary_format format, const void* data,
                      uint64_t size, keel_plugin_module** out_module);
  void (*unload)(keel_plugin_module* module);
  /* KEEL_NOT_FOUND when the module has no such kernel; the kernel lives as long as the module. */
  keel_status (*find)(keel_plugin_module* module, const char* name,
                      keel_plugin_kernel** out_kernel);
  keel_status (*launch)(keel_plugin_stream* stream, keel_plugin_kernel* kernel,
                        const keel_launch* launch);
} keel_kernel_table;

/* ---- operators ---------------------------------------------------------- */

/* One call of an operator. Omitted optional inputs are NULL. The tensors have passed the schema:
 * counts, ranks, shapes and dtypes fit. */
typedef struct keel_op_call {
  keel_header header;
  keel_op_id op;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t attribute_count;
  const keel_tensor* const* inputs;
  const keel_tensor* const* outputs;
  const keel_attribute* attributes;
} keel_op_call;

typedef uint32_t keel_op_level;
enum {
  KEEL_OP_NONE = 0,     /* cannot run this call */
  KEEL_OP_COMPOSED = 1, /* correct, but composed of pieces; a better kernel elsewhere may win */
  KEEL_OP_NATIVE = 2    /* a kernel made for the operator */
};

/* Answer of query. |score|: higher wins among kernels of one level; a plugin's ordinary kernel has
 * 100. |kernel| names the kernel, a string that lives as long as the plugin. */
typedef struct keel_op_support {
  keel_header header;
  keel_op_level level;
  uint32_t score;
  uint64_t workspace_bytes;
  const char* kernel;
} keel_op_support;

typedef struct keel_op_table {
  keel_header header;
  /* Whether the device can run exactly this call: its op, dtypes, shapes and strides. KEEL_OK with
   * level KEEL_OP_NONE means no; set_error may add why. Data pointers may be NULL. Must be quick
   * (under 1 us) and never wrong: run of a promised call may fail only for lack of a resource. */
  keel_status (*query)(keel_plugin_device* device, const keel_op_call* call,
                       keel_op_support* out_support);
  /* Enqueues the call. |workspace| is device memory of at least workspace_bytes that stays valid
   * until the call is done, NULL when workspace_bytes is 0. The call struct is borrowed: copy
   * members that are read later. Outputs may equal inputs only where the schema allows it. */
  keel_status (*run)(keel_plugin_stream* stream, const keel_op_call* call, void* workspace);
} keel_op_table;

/* ---- collectives of the vendor's library -------------------------------- */

typedef uint32_t keel_collective;
enum {
  KEEL_ALL_REDUCE = 0,
  KEEL_REDUCE = 1,
  KEEL_BROADCAST = 2,
  KEEL_ALL_GATHER = 3,
  KEEL_REDUCE_SCATTER = 4,
  KEEL_ALL_TO_ALL = 5,
  KEEL_ALL_TO_ALL_V = 6,
  KEEL_SEND = 7,
  KEEL_RECV = 8,
  KEEL_BARRIER = 9,
  KEEL_ALL_GATHER_V = 10,
  KEEL_REDUCE_SCATTER_V = 11,
  KEEL_GATHER = 12,
  KEEL_GATHER_V = 13,
  KEEL_SCATTER = 14,
  KEEL_SCATTER_V = 15,
  KEEL_SEND_RECV = 16, /* one or more sends and receives that proceed together */
  KEEL_COLLECTIVE_COUNT = 17
};

/* One collective call of one rank. Counts are in elements of |dtype|, as in NCCL; arrays of counts
 * and displacements are host memory. */
typedef struct keel_ccl_call {
  keel_header header;
  keel_collective collective;
  keel_dtype dtype;
  keel_reduction reduction;
  int32_t root; /* or the peer of send and recv */
  const void* send;
  void* receive;
  uint64_t count;
  double factor;               /* of KEEL_PREMUL_SUM */
  const uint64_t* send_counts; /* of the forms with _V: one entry a rank */
  const uint64_t* send_offsets;
  const uint64_t* receive_counts;
  const uint64_t* receive_offsets;
} keel_ccl_call;

/* Which ranks the library can connect. */
typedef uint32_t keel_ccl_reach;
enum {
  KEEL_CCL_PROCESS = 1, /* ranks of one process */
  KEEL_CCL_HOST = 2,    /* ranks of one host */
  KEEL_CCL_NETWORK = 3  /* ranks of any hosts */
};

/* Identity of the library. Core never connects ranks whose |library| differs. */
typedef struct keel_ccl_info {
  keel_header header;
  char library[64]; /* name and version, as far as versions do not mix: "NCCL 2.27" */
  keel_ccl_reach reach;
  uint32_t reserved;
} keel_ccl_info;

/* NCCL, RCCL, HCCL, BKCL. Optional as a whole (KEEL_CAPABILITY_CCL, which needs capability,
 * unique_id, init_rank, destroy, run and info). No two ranks of one communicator share a device,
 * and no device with a single hardware queue takes part: a waiting operation would hold up the work
 * that it waits for. */
typedef struct keel_ccl_table {
  keel_header header;
  /* KEEL_OK when the library itself runs |collective| for the dtype and reduction, never by
   * another dtype; else KEEL_UNSUPPORTED. */
  keel_status (*capability)(keel_plugin_instance* instance, keel_collective collective,
                            keel_dtype dtype, keel_reduction reduction);
  /* Returns the bootstrap blob that all ranks share: |*in_out_size| is the room, then the size
   * (NCCL 128 bytes, HCCL 4,108). The caller's process stays alive until all ranks have joined. */
  keel_status (*unique_id)(keel_plugin_device* device, void* out_id, uint64_t* in_out_size);
  /* Blocks until all ranks have joined, or KEEL_TIMED_OUT where the library supports a deadline;
   * core calls init_rank on a separate thread for each rank. */
  keel_status (*init_rank)(keel_plugin_device* device, const void* id, uint64_t id_size,
                           int32_t rank, int32_t world, int64_t timeout_ns,
                           keel_plugin_comm** out_comm);
  void (*destroy)(keel_plugin_comm* comm);
  /* Gives up all work in flight. Optional; without this slot core abandons the stream and reports
   * the device lost. */
  keel_status (*abort)(keel_plugin_comm* comm);
  keel_status (*async_error)(keel_plugin_comm* comm); /* optional; KEEL_OK or the failure */
  /* Enqueues |count| calls as one group: either all or none. A per-thread group state of the
   * library starts and ends inside this call. */
  keel_status (*run)(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                     uint32_t count);
  keel_status (*register_buffer)(keel_plugin_comm* comm, void* pointer, uint64_t size,
                                 void** out_registration); /* optional, core calls neither so far */
  keel_status (*deregister_buffer)(keel_plugin_comm* comm, void* registration); /* optional */
  /* Works before a device is open. */
  keel_status (*info)(keel_plugin_instance* instance, keel_ccl_info* out_info);
  /* Splits |comm|: every rank of |comm| calls, at once. |ranks| lists the |world| ranks of the new
   * communicator in their new order; this rank is number |rank| of them. The lists of two ranks are
   * equal or disjoint. With |world| 0 the rank joins none, and *out_comm is NULL. Blocks as
   * init_rank does; an abort of |comm| ends the call, too. The new communicator outlives |comm|.
   * Optional: without this slot, or with KEEL_UNSUPPORTED, core connects the ranks by a unique id.
   * Native: ncclCommSplit (a color and a key), HcclCreateSubCommConfig (a list of ranks). */
  keel_status (*split)(keel_plugin_comm* comm, const uint32_t* ranks, uint32_t world, uint32_t rank,
                       int64_t timeout_ns, keel_plugin_comm** out_comm);
} keel_ccl_table;

/* ---- failures and waits on demand ----------------------------------------- */

/* Makes work fail, or wait, on demand: for conformance runs on chips that cannot do so otherwise.
 * Optional, in the chain of keel_plugin.header.next. The functions take objects of an instance with
 * the setting "conformance" = "1", and return KEEL_FAILED_PRECONDITION for any other. libkeel never
 * calls them. */
typedef struct keel_test_table {
  keel_header header;
  /* Enqueues work that fails with |status| in its turn, or with KEEL_INTERNAL where the chip has no
   * such failure, as a kernel that traps would. A plugin supports at least KEEL_UNAVAILABLE,
   * KEEL_OUT_OF_RANGE and KEEL_INVALID_ARGUMENT. */
  keel_status (*fail_work)(keel_plugin_stream* stream, keel_status status);
  /* Enqueues work that ends, with success, once release is called. The work holds up its own
   * stream, and streams that share a hardware queue with it. */
  keel_status (*hold)(keel_plugin_stream* stream, keel_plugin_hold** out_hold);
  /* Called once for each hold, from any thread; frees |hold|. */
  void (*release)(keel_plugin_hold* hold);
  /* Loses the device, as an uncorrectable memory error would. Optional. */
  keel_status (*lose_device)(keel_plugin_device* device);
} keel_test_table;

/* ---- the plugin --------------------------------------------------------- */

/* Returned by the query symbol; lives as long as the process. */
typedef struct keel_plugin {
  keel_header header;
  uint32_t abi_major; /* KEEL_ABI_MAJOR that the plugin was compiled with */
  uint32_t reserved;
  const char* name; /* [a-z][a-z0-9_]*, unique: "cpu", "vulkan", "cuda" */
  const char* vendor;
  const char* version;
  /* Several instances may live at once, each with settings of its own. */
  keel_status (*create_instance)(const keel_instance_settings* settings,
                                 keel_plugin_instance** out_instance);
  void (*destroy_instance)(keel_plugin_instance* instance);
  const keel_device_table* device; /* required */
  const keel_memory_table* memory; /* required to hold a device */
  const keel_stream_table* stream; /* required to hold a device */
  const keel_kernel_table* kernel; /* NULL: none */
  const keel_op_table* op;         /* NULL: none, core runs the CPU's kernels */
  const keel_ccl_table* ccl;       /* NULL: none, Keel's own collectives */
} keel_plugin;

/* Exported under KEEL_PLUGIN_QUERY_SYMBOL. Called once, before anything else;
 * must not touch a device. KEEL_UNSUPPORTED when |host| is too old. */
typedef keel_status (*keel_plugin_query_fn)(const keel_host* host, const keel_plugin** out_plugin);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_ABI_H_ */
