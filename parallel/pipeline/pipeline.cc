// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <keel/parallel/pipeline.hpp>
#include <map>
#include <utility>

#include "parallel/pipeline/link.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

// Passes for which receives are posted ahead: a message then travels during the two passes before
// the one that needs the message.
constexpr size_t kPostedAhead = 2;

// Passes that the host enqueues ahead of the device. Without a limit, a rank that waits for its
// neighbours would have enqueued the rest of the step: memory that a held stream frees is of no use
// until what it waits for has come, so each pass would take new memory.
constexpr size_t kEnqueuedAhead = 6;

bool is_backward(Task task) {
  return task == Task::kBackward || task == Task::kBackwardData;
}

Span message(SpanKind kind, const Action& action, const PipelineStep& step) {
  return {
      .kind = kind, .stage = action.stage, .micro_batch = action.micro_batch, .group = step.group};
}

bool ends_slot(Task task) {
  return task == Task::kBackward || task == Task::kBackwardWeight;
}

uint64_t elements_of(const keel_tensor& tensor) {
  uint64_t count = 1;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    count *= static_cast<uint64_t>(tensor.shape[axis]);
  }
  return count;
}

// Boundaries are float32.
uint64_t bytes_of(const keel_tensor& tensor) {
  return elements_of(tensor) * sizeof(float);
}

char* first_byte(const keel_tensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

// The slots of one stage, and the events that order their use.
struct Pipeline::Chunk {
  struct Slot {
    Event allocated, received;  // the input
    Event computed, sent;       // the output
    Event has_gradient_room, gradient_received;
  };
  // A copy of an input's gradient: its slot ends with the weights' gradients, which need not wait
  // for the message then.
  struct Outgoing {
    Buffer data;
    Event computed, sent;
  };

  Stage* stage = nullptr;
  std::deque<Slot> slots;
  std::vector<size_t> free;            // used from the front
  std::map<uint32_t, size_t> slot_of;  // by micro-batch
  std::array<Outgoing, 2> outgoing;
  size_t next_outgoing = 0;
  uint32_t ended = 0;  // micro-batches

  size_t take(uint32_t micro_batch) {
    const size_t slot = free.front();
    free.erase(free.begin());
    slot_of[micro_batch] = slot;
    return slot;
  }
  void give_back(uint32_t micro_batch) {
    free.push_back(slot_of.at(micro_batch));
    slot_of.erase(micro_batch);
  }
};

struct Pipeline::State {
  Links links;
  std::vector<Chunk> chunks;
  std::vector<bool> posted;      // by action: its receive
  std::vector<bool> has_run;     // forward passes enqueued, by chunk and micro-batch
  keel_stream last_stream = {};  // of the pass before
  Event order;
  std::array<Event, kEnqueuedAhead> ended;  // the last passes, by action
};

size_t Pipeline::slots(const PipelineSchedule& schedule, uint32_t rank, uint32_t chunk) {
  const std::vector<Action>& actions = schedule.actions.at(rank);
  const uint32_t stage = chunk * schedule.ranks + rank;
  const size_t ahead = stage == 0 ? 0 : kPostedAhead;
  size_t used = 0;
  size_t most = 0;
  size_t posted = 0;
  for (size_t index = 0; index < actions.size(); ++index) {
    for (; posted < std::min(index + ahead + 1, actions.size()); ++posted) {
      used += actions[posted].stage == stage && actions[posted].task == Task::kForward ? 1 : 0;
    }
    most = std::max(most, used);
    if (actions[index].stage == stage && ends_slot(actions[index].task)) --used;
  }
  return most;
}

Pipeline::Pipeline(Communicator* axis, PipelineSchedule schedule, std::vector<Stage*> stages)
    : schedule_(std::move(schedule)), stages_(std::move(stages)) {
  check(schedule_);
  const uint32_t world = axis == nullptr ? 1 : axis->world();
  rank_ = axis == nullptr ? 0 : axis->rank();
  if (world != schedule_.ranks) {
    throw Error(KEEL_INVALID_ARGUMENT, "pipeline: a schedule of " +
                                           std::to_string(schedule_.ranks) +
                                           " ranks on an axis of " + std::to_string(world));
  }
  if (stages_.size() != schedule_.chunks) {
    throw Error(KEEL_INVALID_ARGUMENT, "pipeline: rank " + std::to_string(rank_) + " has " +
                                           std::to_string(stages_.size()) + " stages, not " +
                                           std::to_string(schedule_.chunks));
  }
  for (uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    const uint32_t stage = chunk * world + rank_;
    if (stages_[chunk]->is_first() != (stage == 0) ||
        stages_[chunk]->is_last() != (stage + 1 == schedule_.stages())) {
      throw Error(KEEL_INVALID_ARGUMENT,
                  "pipeline: stage " + std::to_string(stage) + " of " +
                      std::to_string(schedule_.stages()) +
                      " is a first or last stage of the model in another place");
    }
  }
  state_ = std::make_unique<State>();
  if (axis != nullptr) {
    state_->links =
        Links::make(*axis, stages_[0]->stream().device(), /*wraps=*/schedule_.chunks > 1);
  }
  state_->chunks = std::vector<Chunk>(schedule_.chunks);
  for (uint32_t c = 0; c < schedule_.chunks; ++c) {
    Chunk& chunk = state_->chunks[c];
    chunk.stage = stages_[c];
    chunk.slots.resize(slots(schedule_, rank_, c));
    for (size_t slot = 0; slot < chunk.slots.size(); ++slot) chunk.free.push_back(slot);
  }
}

// A destroyed stream cancels what it has not begun: the last messages would fail at their
// receivers.
// In a failed step the peers may have stopped: nobody would receive them.
Pipeline::~Pipeline() {
  if (std::uncaught_exceptions() > 0) state_->links.abort();
  state_->links.drain();
}

uint64_t Pipeline::operations() const {
  uint64_t sum = 0;
  for (const std::optional<LinkEnd>* link :
       {&state_->links.output_out, &state_->links.output_in, &state_->links.gradient_out,
        &state_->links.gradient_in}) {
    if (*link) sum += (*link)->comm.stats().operations;
  }
  return sum;
}

void Pipeline::step(const PipelineStep& step) {
  const std::vector<Action>& actions = schedule_.actions[rank_];
  state_->posted.assign(actions.size(), false);
  state_->has_run.assign(size_t{schedule_.chunks} * schedule_.micro_batches, false);
  for (Chunk& chunk : state_->chunks) chunk.ended = 0;
  size_t index = 0;
  try {
    for (; index < actions.size(); ++index) run(index, step);
  } catch (const Error& error) {
    state_->links.abort();
    throw Error(error.status(), "pipeline rank " + std::to_string(rank_) + ", " +
                                    text(actions[index]) + ": " + error.what());
  } catch (...) {
    state_->links.abort();
    throw;
  }
}

void Pipeline::run(size_t index, const PipelineStep& step) {
  Event& ended = state_->ended[index % kEnqueuedAhead];
  if (index >= kEnqueuedAhead) ended.wait();
  post_receives(index, step);
  const Action& action = schedule_.actions[rank_][index];
  const uint32_t number = schedule_.chunk_of(action.stage);
  Chunk& chunk = state_->chunks[number];
  // Passes of stages on streams of their own run one after the other all the same.
  const keel_stream stream = chunk.stage->stream().get();
  if (state_->last_stream.id != 0 && state_->last_stream.id != stream.id) {
    keel::check(keel_event_record(state_->order.get(), state_->last_stream));
    chunk.stage->stream().wait(state_->order);
  }
  state_->last_stream = stream;

  switch (action.task) {
    case Task::kForward:
      forward(action, step);
      break;
    case Task::kBackward:
      backward_data(action, step, SpanKind::kBackward, /*is_whole=*/true);
      break;
    case Task::kBackwardData:
      backward_data(action, step, SpanKind::kBackwardData, /*is_whole=*/false);
      break;
    case Task::kBackwardWeight:
      backward_weight(action, step);
      break;
  }
  ended.record(chunk.stage->stream());
  if (!ends_slot(action.task)) return;
  if (++chunk.ended == schedule_.micro_batches && step.after_chunk) step.after_chunk(number);
}

void Pipeline::post_receives(size_t index, const PipelineStep& step) {
  const std::vector<Action>& actions = schedule_.actions[rank_];
  const auto receive = [&](LinkEnd& link, const keel_tensor& into, const Action& action,
                           Event& done) {
    const SpanKind kind =
        is_backward(action.task) ? SpanKind::kReceiveGradient : SpanKind::kReceive;
    record(step.recorder, link.stream, message(kind, action, step), [&] {
      link.comm.recv(first_byte(into), elements_of(into), into.dtype, link.peer, link.stream);
    });
    done.record(link.stream);
    if (step.on_receive) step.on_receive();
  };
  const size_t end = std::min(index + kPostedAhead + 1, actions.size());
  bool gradients_in_order = true;
  for (size_t i = index; i < end; ++i) {
    const Action& action = actions[i];
    if (state_->posted[i] || action.task == Task::kBackwardWeight) continue;
    const uint32_t number = schedule_.chunk_of(action.stage);
    Chunk& chunk = state_->chunks[number];
    Stage& stage = *chunk.stage;
    if (action.task == Task::kForward && !stage.is_first()) {
      Chunk::Slot& slot = chunk.slots[chunk.take(action.micro_batch)];
      const keel_tensor input = stage.input(chunk.slot_of[action.micro_batch]);
      slot.allocated.record(stage.stream());
      state_->links.output_in->stream.wait(slot.allocated);
      receive(*state_->links.output_in, input, action, slot.received);
      state_->posted[i] = true;
    }
    if (is_backward(action.task) && !stage.is_last()) {
      // A stage has room for the gradient once its forward pass is enqueued.
      gradients_in_order &=
          state_->has_run[size_t{number} * schedule_.micro_batches + action.micro_batch];
      if (!gradients_in_order) continue;
      const size_t number_of_slot = chunk.slot_of.at(action.micro_batch);
      Chunk::Slot& slot = chunk.slots[number_of_slot];
      const keel_tensor gradient = stage.output_gradient(number_of_slot);
      slot.has_gradient_room.record(stage.stream());
      state_->links.gradient_in->stream.wait(slot.has_gradient_room);
      receive(*state_->links.gradient_in, gradient, action, slot.gradient_received);
      state_->posted[i] = true;
    }
  }
}

void Pipeline::forward(const Action& action, const PipelineStep& step) {
  const uint32_t number = schedule_.chunk_of(action.stage);
  Chunk& chunk = state_->chunks[number];
  Stage& stage = *chunk.stage;
  Stream& stream = stage.stream();
  const size_t place =
      stage.is_first() ? chunk.take(action.micro_batch) : chunk.slot_of.at(action.micro_batch);
  Chunk::Slot& slot = chunk.slots[place];
  if (!stage.is_first()) stream.wait(slot.received);
  if (step.load) step.load(stage, place, action.micro_batch);
  record(step.recorder, stream, {SpanKind::kForward, action.stage, action.micro_batch},
         [&] { stage.forward(place); });
  state_->has_run[size_t{number} * schedule_.micro_batches + action.micro_batch] = true;
  if (stage.is_last()) {
    if (step.after_loss) step.after_loss(stage, place, action.micro_batch);
    return;
  }
  LinkEnd& link = *state_->links.output_out;
  const keel_tensor output = stage.output(place);
  slot.computed.record(stream);
  link.stream.wait(slot.computed);
  record(step.recorder, link.stream, message(SpanKind::kSend, action, step), [&] {
    link.comm.send(first_byte(output), elements_of(output), output.dtype, link.peer, link.stream);
  });
  slot.sent.record(link.stream);
  if (step.on_send) step.on_send(bytes_of(output));
}

void Pipeline::backward_data(const Action& action, const PipelineStep& step, SpanKind kind,
                             bool is_whole) {
  Chunk& chunk = state_->chunks[schedule_.chunk_of(action.stage)];
  Stage& stage = *chunk.stage;
  Stream& stream = stage.stream();
  const size_t place = chunk.slot_of.at(action.micro_batch);
  // The stage may release its output, which has arrived: the gradient comes from there.
  if (!stage.is_last()) {
    stream.wait(chunk.slots[place].gradient_received);
    stream.wait(chunk.slots[place].sent);
  }
  Chunk::Outgoing& outgoing = chunk.outgoing[chunk.next_outgoing];
  if (!stage.is_first()) stream.wait(outgoing.sent);
  keel_tensor gradient = {};
  record(step.recorder, stream, {kind, action.stage, action.micro_batch}, [&] {
    if (is_whole) {
      stage.backward(place, step.scale);
    } else {
      stage.backward_data(place, step.scale);
    }
    if (!stage.is_first()) {
      gradient = stage.input_gradient(place);
      const uint64_t bytes = bytes_of(gradient);
      if (outgoing.data.size() < bytes) {
        outgoing.data = Buffer(stream.device(), KEEL_MEMORY_DEVICE, bytes);
      }
      stream.copy(stream.device(), outgoing.data.data(), stream.device(), first_byte(gradient),
                  bytes);
    }
    if (is_whole) {
      // Ends the slot's last tensor, the gradient that has been copied.
      stage.discard(place);
      chunk.give_back(action.micro_batch);
    }
  });
  if (stage.is_first()) return;
  outgoing.computed.record(stream);
  LinkEnd& link = *state_->links.gradient_out;
  link.stream.wait(outgoing.computed);
  record(step.recorder, link.stream, message(SpanKind::kSendGradient, action, step), [&] {
    link.comm.send(outgoing.data.data(), elements_of(gradient), gradient.dtype, link.peer,
                   link.stream);
  });
  outgoing.sent.record(link.stream);
  if (step.on_send) step.on_send(bytes_of(gradient));
  chunk.next_outgoing = (chunk.next_outgoing + 1) % chunk.outgoing.size();
}

void Pipeline::backward_weight(const Action& action, const PipelineStep& step) {
  Chunk& chunk = state_->chunks[schedule_.chunk_of(action.stage)];
  Stream& stream = chunk.stage->stream();
  record(step.recorder, stream, {SpanKind::kBackwardWeight, action.stage, action.micro_batch},
         [&] { chunk.stage->backward_weight(chunk.slot_of.at(action.micro_batch)); });
  chunk.give_back(action.micro_batch);
}

}  // namespace v0
}  // namespace keel::parallel
