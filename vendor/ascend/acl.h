// SPDX-License-Identifier: Apache-2.0
// Declarations of Ascend's ACL runtime (libascendcl.so) as of ACL 1.15 and 1.16: the functions that
// Keel calls. Enumerations have a fixed underlying type, so a value that a later version adds
// converts without undefined behaviour.
#ifndef KEEL_VENDOR_ASCEND_ACL_H_
#define KEEL_VENDOR_ASCEND_ACL_H_

#include <stddef.h>
#include <stdint.h>

extern "C" {

typedef int aclError;
typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtContext;
typedef void (*aclrtHostFunc)(void* args);

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_UNINITIALIZE = 100001;
constexpr aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;
constexpr aclError ACL_ERROR_FEATURE_UNSUPPORTED = 200006;
constexpr aclError ACL_ERROR_INTERNAL_ERROR = 500000;
constexpr aclError ACL_ERROR_RT_PARAM_INVALID = 107000;
constexpr aclError ACL_ERROR_RT_INVALID_DEVICEID = 107001;
constexpr aclError ACL_ERROR_RT_CONTEXT_NULL = 107002;
constexpr aclError ACL_ERROR_RT_STREAM_CONTEXT = 107003;
constexpr aclError ACL_ERROR_RT_ADDR_UNALIGNED = 107008;
constexpr aclError ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000;
constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
constexpr aclError ACL_ERROR_RT_NO_DEVICE = 207004;
constexpr aclError ACL_ERROR_RT_NO_EVENT_RESOURCE = 207007;
constexpr aclError ACL_ERROR_RT_NO_STREAM_RESOURCE = 207008;
constexpr aclError ACL_ERROR_RT_REPEATED_INIT = 207015;
constexpr aclError ACL_ERROR_RT_DEVICE_OOM = 207018;
constexpr aclError ACL_ERROR_RT_INTERNAL_ERROR = 507000;
constexpr aclError ACL_ERROR_RT_LOST_HEARTBEAT = 507010;
constexpr aclError ACL_ERROR_RT_AICORE_TIMEOUT = 507014;
constexpr aclError ACL_ERROR_RT_AICORE_EXCEPTION = 507015;
constexpr aclError ACL_ERROR_RT_DEVICE_MEM_ERROR = 507053;
constexpr aclError ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR = 507054;
constexpr aclError ACL_ERROR_RT_LINK_ERROR = 507056;

enum aclDataType : int32_t {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_BF16 = 27,
  ACL_FLOAT8_E5M2 = 35,
  ACL_FLOAT8_E4M3FN = 36,
};
enum aclFormat : int32_t {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_FRACTAL_NZ = 29
};
enum aclrtMemcpyKind : int32_t {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
};
enum aclrtMemMallocPolicy : int32_t {
  ACL_MEM_MALLOC_HUGE_FIRST = 0,
  ACL_MEM_MALLOC_NORMAL_ONLY = 2
};
enum aclrtMemAttr : int32_t { ACL_DDR_MEM = 0, ACL_HBM_MEM = 1 };
enum aclrtEventRecordedStatus : int32_t {
  ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
  ACL_EVENT_RECORDED_STATUS_COMPLETE = 1,
};
enum aclrtStreamStatus : int32_t {
  ACL_STREAM_STATUS_COMPLETE = 0,
  ACL_STREAM_STATUS_NOT_READY = 1
};
enum aclrtDevAttr : int32_t {
  ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
  ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
};

constexpr uint32_t ACL_EVENT_SYNC = 0x1;
constexpr uint32_t ACL_EVENT_TIME_LINE = 0x8;
constexpr uint32_t ACL_STREAM_FAST_LAUNCH = 0x1;
constexpr uint32_t ACL_STREAM_FAST_SYNC = 0x2;
constexpr uint64_t ACL_STOP_ON_FAILURE = 1;
constexpr uint32_t ACL_HOST_REG_PINNED = 0x10000000;

enum aclSysParamOpt : int32_t { ACL_OPT_DETERMINISTIC = 0 };

struct aclrtUuid {
  char bytes[16];
};

aclError aclInit(const char* configPath);
aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion);
const char* aclrtGetSocName();
const char* aclGetRecentErrMsg();

aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtSetDevice(int32_t deviceId);
aclError aclrtResetDevice(int32_t deviceId);
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value);
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid);
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total);
aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority);

aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext* context);
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent);

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args);

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* devPtr);
aclError aclrtMallocHost(void** hostPtr, size_t size);
aclError aclrtFreeHost(void* hostPtr);
aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag);
aclError aclrtHostUnregister(void* ptr);
aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream);

}  // extern "C"

#endif  // KEEL_VENDOR_ASCEND_ACL_H_
