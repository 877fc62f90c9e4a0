// SPDX-License-Identifier: Apache-2.0
// The plugin as seen by core: name and function tables.
#ifndef TINYCHIP_TABLES_H_
#define TINYCHIP_TABLES_H_

#include <keel/abi.h>

namespace tinychip {

extern const keel_plugin kPlugin;

// Return the object behind a handle, for code that replaces a slot of the tables.
class Event;
class Stream;
Stream& object(keel_plugin_stream* handle);
Event& object(keel_plugin_event* handle);

}  // namespace tinychip

#endif  // TINYCHIP_TABLES_H_
