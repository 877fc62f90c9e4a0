// SPDX-License-Identifier: Apache-2.0
/* Greets every device of this machine: allocates device memory, fills it, copies it back and checks
 * the content. Uses the C interface, from init to shutdown. */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>

/* Every call returns a status; the text of the last failure gives the reason. */
static void check(keel_status status, const char* call) {
  if (status == KEEL_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, keel_status_name(status), keel_last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

enum { kCount = 1024 };

/* Returns the number of correct elements. */
static int greet(keel_device device) {
  char name[80];
  keel_device_info info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  CHECK(keel_device_name(device, name, sizeof(name)));
  CHECK(keel_device_info_get(device, &info));

  /* An in-order queue: the work below runs in this order, asynchronously to the host. */
  keel_stream stream;
  CHECK(keel_stream_create(device, /*priority=*/0, &stream));

  /* A device address: the host must not dereference it. */
  void* memory;
  CHECK(keel_alloc(device, KEEL_MEMORY_DEVICE, kCount * sizeof(float), &memory));

  const float value = 42.0f;
  static float host[kCount];
  CHECK(keel_fill(stream, memory, &value, sizeof(value), sizeof(host)));
  CHECK(keel_copy(stream, KEEL_HOST, host, device, memory, sizeof(host)));
  CHECK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));

  int right = 0;
  for (int i = 0; i < kCount; ++i) right += host[i] == value;
  for (int i = 0; i < kCount; ++i) host[i] = 0; /* for the next device */
  printf("%-12s %s (%s): %d of %d elements are %g\n", name, info.name, info.architecture, right,
         kCount, value);

  CHECK(keel_free(device, memory));
  CHECK(keel_stream_destroy(stream));
  return right;
}

int main(void) {
  CHECK(keel_init(NULL));
  uint32_t count;
  CHECK(keel_device_count(&count));
  printf("%u devices\n", count);

  int failed = count == 0;
  for (uint32_t index = 0; index < count; ++index) {
    keel_device device;
    CHECK(keel_device_get(index, &device));
    if (greet(device) != kCount) failed = 1;
  }
  CHECK(keel_shutdown());
  return failed;
}
