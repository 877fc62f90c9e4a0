// SPDX-License-Identifier: Apache-2.0
// Where ranks meet, as a unique id tells it.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_MEETING_PLACE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_MEETING_PLACE_H_

#include <keel/keel.h>

#include <string>

#include "collectives/bootstrap/unix_socket.h"
#include "core/status.h"

namespace keel {

// Two forms of ids:
//   keel-1:unix:<32 digits>         drawn at random; its maker listens before anybody has it
//   keel-1:name:<uid>-<32 digits>   made of a name, which a launcher gives to all ranks
class MeetingPlace {
 public:
  static Status random(MeetingPlace* out_place);
  // The same for all processes of one user that have the same |name|, of any characters.
  static MeetingPlace named(const std::string& name);
  // KEEL_INVALID_ARGUMENT, naming |id|, for an id that is none.
  static Status parse(const keel_unique_id& id, MeetingPlace* out_place);

  keel_unique_id id() const;
  const std::string& text() const { return text_; }
  // The abstract socket's.
  std::string socket_name() const;
  // At a random place nobody listens any more; at a named one, nobody yet.
  Absence absence() const { return absence_; }

 private:
  std::string text_;
  Absence absence_ = Absence::kFails;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_MEETING_PLACE_H_
