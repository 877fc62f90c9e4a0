// SPDX-License-Identifier: Apache-2.0
// Gradient descent by several processes, one of which ends half-way: the others go on without it.
//
//   keel run -n 4 --keep-going -- build/bin/go_on
//
// Each rank pulls one weight towards its own number; the weight goes to the mean of the ranks that
// are left.
#include <keel/keel.h>
#include <keel/shrink.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSteps = 40, kLast = 20 };  // rank 1 ends after step kLast

static void check(keel_status status, const char* what) {
  if (status == KEEL_OK) return;
  fprintf(stderr, "go_on: %s: %s: %s\n", what, keel_status_name(status), keel_last_error());
  exit(1);
}

typedef struct Rank {
  keel_device device;
  keel_stream stream;
  keel_comm comm;
  float* gradient;  // in device memory
} Rank;

// Replaces |*gradient| by the mean over all ranks. A failure leaves the stream failed.
static keel_status average(const Rank* self, float* gradient) {
  keel_status status =
      keel_copy(self->stream, self->device, self->gradient, KEEL_HOST, gradient, sizeof(float));
  if (status == KEEL_OK) {
    status = keel_all_reduce(self->comm, self->gradient, self->gradient, 1, KEEL_FLOAT32, KEEL_AVG,
                             self->stream);
  }
  float mean = 0;
  if (status == KEEL_OK) {
    status = keel_copy(self->stream, KEEL_HOST, &mean, self->device, self->gradient, sizeof(float));
  }
  // Waits in any case: until then a copy may still use the memory of the caller.
  const keel_status ended = keel_stream_synchronize(self->stream, KEEL_TIMEOUT_DEFAULT);
  if (status == KEEL_OK) status = ended;
  if (status == KEEL_OK) *gradient = mean;
  return status;
}

// Goes on with the ranks that are left.
static void shrink(Rank* self, int step) {
  keel_comm left;
  check(keel_comm_shrink(self->comm, KEEL_TIMEOUT_DEFAULT, /*absent_ns=*/0, NULL, &left),
        "keel_comm_shrink");
  check(keel_comm_destroy(self->comm), "keel_comm_destroy");
  check(keel_stream_recover(self->stream, KEEL_TIMEOUT_DEFAULT), "keel_stream_recover");
  self->comm = left;
  uint32_t rank = 0;
  uint32_t world = 0;
  check(keel_comm_rank(left, &rank, &world), "keel_comm_rank");
  if (rank == 0) printf("step %d: %u ranks are left\n", step, world);
}

int main(void) {
  Rank self = {0};
  check(keel_init(NULL), "keel_init");
  check(keel_device_get(0, &self.device), "keel_device_get");
  check(keel_stream_create(self.device, 0, &self.stream), "keel_stream_create");
  void* memory = NULL;
  check(keel_alloc(self.device, KEEL_MEMORY_DEVICE, sizeof(float), &memory), "keel_alloc");
  self.gradient = memory;
  check(keel_comm_init_env(self.device, NULL, &self.comm), "keel_comm_init_env");
  uint32_t number = 0;
  uint32_t world = 0;
  check(keel_comm_rank(self.comm, &number, &world), "keel_comm_rank");

  float weight = 0;
  for (int step = 1; step <= kSteps; ++step) {
    float gradient = weight - (float)number;
    while (average(&self, &gradient) != KEEL_OK) {
      shrink(&self, step);
      // Rank 1 ends between two steps, so all ranks are in the same one. In general an operation
      // may fail at one rank and succeed at another: a program agrees on the step to repeat.
      gradient = weight - (float)number;
    }
    weight -= 0.5f * gradient;
    if (step == kLast && number == 1 && world > 1) raise(SIGKILL);
  }

  uint32_t rank = 0;
  check(keel_comm_rank(self.comm, &rank, &world), "keel_comm_rank");
  if (rank == 0) printf("weight %.3f, the mean of %u ranks\n", (double)weight, world);
  check(keel_comm_destroy(self.comm), "keel_comm_destroy");
  check(keel_free(self.device, self.gradient), "keel_free");
  check(keel_stream_destroy(self.stream), "keel_stream_destroy");
  check(keel_shutdown(), "keel_shutdown");
  return 0;
}
