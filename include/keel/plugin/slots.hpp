// SPDX-License-Identifier: Apache-2.0
// Table slots that only call a member function of the object behind a handle. Header-only, on abi.h
// and plugin_kit.hpp. backends/skeleton writes all slots out.
#ifndef KEEL_PLUGIN_SLOTS_HPP_
#define KEEL_PLUGIN_SLOTS_HPP_

#include <keel/abi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <type_traits>

namespace keel::kit {

// Passes ownership of |made| to core if |status| is KEEL_OK.
template <typename Object, typename Handle>
keel_status give(keel_status status, std::unique_ptr<Object>* made, Handle** out_handle) {
  if (status == KEEL_OK) *out_handle = reinterpret_cast<Handle*>(made->release());
  return status;
}

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
      return give(status(kCreate(Handles::object(parent), argument, &made)), &made, out_handle);
    });
  }

  // keel_plugin.create_instance: Instance::create(settings, std::unique_ptr<Instance>*), once no
  // extension of |settings| is unknown.
  template <typename Instance>
  static keel_status create_instance(const keel_instance_settings* settings,
                                     keel_plugin_instance** out_instance) {
    return guard([&] {
      if (settings != nullptr) {
        const keel_status known = check_extensions(settings->header.next);
        if (known != KEEL_OK) return known;
      }
      std::unique_ptr<Instance> made;
      return give(Instance::create(settings, &made), &made, out_instance);
    });
  }

  // keel_device_table.info: the instance's |kDescribe|(ordinal, keel_device_info*). |out_info| may
  // be an older, shorter version.
  template <auto kDescribe>
  static keel_status device_info(keel_plugin_instance* instance, uint32_t ordinal,
                                 keel_device_info* out_info) {
    return guard([&] {
      keel_device_info info = {};
      const keel_status described = (Handles::object(instance).*kDescribe)(ordinal, &info);
      info.header = out_info->header;
      if (described == KEEL_OK) {
        std::memcpy(out_info, &info, std::min<size_t>(info.header.size, sizeof(info)));
      }
      return described;
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
