// SPDX-License-Identifier: Apache-2.0
// The functions that this library exports, with the argument lists that the plugin calls.
#ifndef KEEL_EMULATOR_SHIMS_LEVEL_ZERO_API_H_
#define KEEL_EMULATOR_SHIMS_LEVEL_ZERO_API_H_

#include "vendor/level_zero.h"

namespace ze = keel::ze;  // NOLINT: for the C functions below

extern "C" {
#define KEEL_ZE_Global(name) ze##name
#define KEEL_ZE_Driver(name) zeDriver##name
#define KEEL_ZE_Device(name) zeDevice##name
#define KEEL_ZE_Context(name) zeContext##name
#define KEEL_ZE_CommandList(name) zeCommandList##name
#define KEEL_ZE_EventPool(name) zeEventPool##name
#define KEEL_ZE_Event(name) zeEvent##name
#define KEEL_ZE_Mem(name) zeMem##name
#define KEEL_ZE_Module(name) zeModule##name
#define KEEL_ZE_ModuleBuildLog(name) zeModuleBuildLog##name
#define KEEL_ZE_Kernel(name) zeKernel##name

#define KEEL_ZE_DECLARE(table, name, slot, arguments) ze::Result KEEL_ZE_##table(name) arguments;
KEEL_ZE_FUNCTIONS(KEEL_ZE_DECLARE)
KEEL_ZE_OPTIONAL_FUNCTIONS(KEEL_ZE_DECLARE)
#undef KEEL_ZE_DECLARE
#define KEEL_ZES_DECLARE(table, name, slot, arguments) ze::Result zes##table##name arguments;
KEEL_ZES_FUNCTIONS(KEEL_ZES_DECLARE)
#undef KEEL_ZES_DECLARE
}

#endif  // KEEL_EMULATOR_SHIMS_LEVEL_ZERO_API_H_
