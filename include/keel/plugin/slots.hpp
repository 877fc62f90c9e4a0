// SPDX-License-Identifier: Apache-2.0
// Table slots that only call a member function of the object behind a handle. Header-only, on abi.h
// and plugin_kit.hpp. backends/skeleton writes all slots out.
#ifndef KEEL_PLUGIN_SLOTS_HPP_
#define KEEL_PLUGIN_SLOTS_HPP_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <memory>
#include <type_traits>

namespace keel::kit {

// Slots of a plugin whose class |Handles| has two kinds of static functions:
//   Object& object(keel_plugin_stream*)  for each type of handle in the slots used
//   keel_status status(Result)           for each type that a member function returns
//
//   struct Handles { static Stream& object(keel_plugin_stream* handle); ... };
//   using Slots = kit::Slots<Handles>;
//   constexpr keel_stream_table kStreamTable = {
//       .destroy = Slots::destroy<keel_plugin_stream>,
//       .query = Slots::call<&Stream::query>,
//       .copy = Slots::call<&Stream::copy>,
//       .stream_wait_event = Slots::call<&Stream::wait>,  // wait(Event&)
//
// The field's type decides the arguments of a slot. Handles among the arguments become references
// to objects, other arguments pass unchanged. An exception becomes a status, see guard().
template <typename Handles>
class Slots {
 public:
  // Calls the member function |kMethod| of the first argument's object.
  template <auto kMethod, typename Handle, typename... Arguments>
  static keel_status call(Handle* handle, Arguments... arguments) {
    return guard([&] { return status((Handles::object(handle).*kMethod)(convert(arguments)...)); });
  }

  // As call(), on the object of the second argument: for slots that name the stream last or the end
  // before the start. The first argument's object is the member function's first argument.
  template <auto kMethod, typename First, typename Second, typename... Arguments>
  static keel_status call_on_second(First* first, Second* second, Arguments... arguments) {
    return guard([&] {
      return status(
          (Handles::object(second).*kMethod)(Handles::object(first), convert(arguments)...));
    });
  }

  // Calls the function |kCreate|(Parent&, argument, std::unique_ptr<Object>*), and on KEEL_OK
  // passes ownership of the object to core.
  template <typename Object, auto kCreate, typename Parent, typename Argument, typename Handle>
  static keel_status create(Parent* parent, Argument argument, Handle** out_handle) {
    return guard([&] {
      std::unique_ptr<Object> made;
      const keel_status created = status(kCreate(Handles::object(parent), argument, &made));
      if (created == KEEL_OK) *out_handle = reinterpret_cast<Handle*>(made.release());
      return created;
    });
  }

  // Deletes the object of |handle|.
  template <typename Handle>
  static void destroy(Handle* handle) {
    delete &Handles::object(handle);
  }

 private:
  template <typename Type>
  static constexpr bool is_handle = requires(Type value) {
    Handles::object(value);
  };

  template <typename Type>
  static decltype(auto) convert(Type value) {
    if constexpr (is_handle<Type>) {
      return Handles::object(value);
    } else {
      return value;
    }
  }

  template <typename Result>
  static keel_status status(const Result& result) {
    if constexpr (std::is_same_v<Result, keel_status>) {
      return result;
    } else {
      return Handles::status(result);
    }
  }
};

}  // namespace keel::kit

#endif  // KEEL_PLUGIN_SLOTS_HPP_
