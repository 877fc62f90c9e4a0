// SPDX-License-Identifier: Apache-2.0
// The network interface that carries a rank's messages.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HOST_INTERFACES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HOST_INTERFACES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ipc/host_interface.h"
#include "base/ipc/socket_address.h"
#include "collectives/bootstrap/identity.h"
#include "core/status.h"

namespace keel {

// The interface that a rank uses, and why.
struct ChosenInterface {
  enum class Reason {
    kRoute,     // the system's route to the server uses it
    kNamed,     // KEEL_INTERFACE names it, or it is the only usable one of several named
    kNearest,   // of several
    kLocalRank  // of several equally near
  };
  std::string name;  // empty: no interface has the address
  SocketAddress address;
  Reason reason = Reason::kRoute;
  // From the rank's device, in the words of keel_topology_get, where there was a choice; else
  // empty.
  std::string distance;

  const char* reason_name() const;  // "route", "named", "nearest", "local_rank"
};

// Values of KEEL_INTERFACE that leave a choice: this one, and a list of interfaces or addresses,
// "ib0,ib1".
inline constexpr char kNearestInterface[] = "nearest";

// KEEL_INTERFACE as the user has set it; empty: unset.
std::string interface_setting();

// Returns the interfaces, addresses or host names that |setting| names; none for "" and "nearest".
std::vector<std::string> named_interfaces(const std::string& setting);

// Chooses among the interfaces that are up and have an address of the family of |route|.
struct InterfaceQuery {
  std::string setting;  // "nearest" or a list
  SocketAddress route;  // this host's address on the way to the server
  uint32_t turn = 0;    // local rank: the ranks of a host take the members of a tie in turn
};
// Returns the distance of each interface from the rank's device. Called for several alone.
using MeasureInterfaces =
    std::function<std::vector<std::string>(const std::vector<HostInterface>&)>;
// Returns the nearest of a list, among equal ones the one whose turn it is. With "nearest",
// considers physical interfaces only, and among equal ones prefers the route's; returns the route's
// where there are none, or where the server is on the loopback interface. KEEL_NOT_FOUND, with the
// reason for each, where no interface of a list is usable. |*out_unusable|: what is wrong with the
// others of a list, or empty.
Status choose_interface(const InterfaceQuery& query, const std::vector<HostInterface>& interfaces,
                        const MeasureInterfaces& measure, ChosenInterface* out_chosen,
                        std::string* out_unusable);

// The interface of rank |self| by KEEL_INTERFACE. |route| as above; its port does not count.
Status find_interface(const SocketAddress& route, const PeerInfo& self,
                      ChosenInterface* out_chosen);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HOST_INTERFACES_H_
