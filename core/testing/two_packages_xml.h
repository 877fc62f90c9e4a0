// SPDX-License-Identifier: Apache-2.0
// A machine for tests, as hwloc's XML: two packages with one NUMA node each, PCI devices on three
// buses of the first (02 and 03 below one bridge) and two of the second.
#ifndef KEEL_CORE_TESTING_TWO_PACKAGES_XML_H_
#define KEEL_CORE_TESTING_TWO_PACKAGES_XML_H_

namespace keel::testing {

inline constexpr char kTwoPackagesXml[] = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
   <info name="CPUModel" value="Two &amp; two &lt;cores&gt;"/>
   <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="68719476736"/>
   <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4">
    <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
   </object>
   <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6">
    <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
   </object>
   <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[00-3f]">
    <object type="Bridge" gp_index="21" bridge_type="1-1" depth="1" bridge_pci="0000:[01-03]" pci_busid="0000:00:01.0" pci_type="0604 [8086:0001] [0000:0000] 00" pci_link_speed="0.000000">
     <object type="PCIDev" gp_index="22" pci_busid="0000:02:00.0" pci_type="0302 [10de:0001] [0000:0000] 00" pci_link_speed="0.000000"/>
     <object type="PCIDev" gp_index="23" pci_busid="0000:03:00.0" pci_type="0207 [15b3:0001] [0000:0000] 00" pci_link_speed="0.000000">
      <object type="OSDev" gp_index="24" name="ib0" osdev_type="2"/>
      <object type="OSDev" gp_index="25" name="mlx5_0" osdev_type="3"/>
     </object>
    </object>
    <object type="Bridge" gp_index="26" bridge_type="1-1" depth="1" bridge_pci="0000:[05-05]" pci_busid="0000:00:02.0" pci_type="0604 [8086:0001] [0000:0000] 00" pci_link_speed="0.000000">
     <object type="PCIDev" gp_index="27" pci_busid="0000:05:00.0" pci_type="1200 [1da3:0001] [0000:0000] 00" pci_link_speed="0.000000"/>
    </object>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8">
   <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9" local_memory="34359738368"/>
   <object type="Core" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="10">
    <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="11"/>
   </object>
   <object type="Core" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="12">
    <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="13"/>
   </object>
   <object type="Bridge" gp_index="30" bridge_type="0-1" depth="0" bridge_pci="0000:[80-bf]">
    <object type="PCIDev" gp_index="31" pci_busid="0000:81:00.0" pci_type="0302 [1002:0001] [0000:0000] 00" pci_link_speed="0.000000"/>
    <object type="PCIDev" gp_index="32" pci_busid="0000:82:00.0" pci_type="0200 [8086:0002] [0000:0000] 00" pci_link_speed="0.000000">
     <object type="OSDev" gp_index="33" name="eth1" osdev_type="2"/>
    </object>
   </object>
  </object>
 </object>
</topology>
)";

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_TWO_PACKAGES_XML_H_
