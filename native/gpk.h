// PyGPUkit's C++ library in one include.
#pragma once

#include "core/array.h"
#include "core/config.h"
#include "core/context.h"
#include "core/device.h"
#include "core/driver.h"
#include "core/error.h"
#include "core/event.h"
#include "core/graph.h"
#include "core/launch.h"
#include "core/memory.h"
#include "core/module.h"
#include "core/stream.h"
#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/fill.h"
