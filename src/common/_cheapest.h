/* The least cost of every row of costs, and the lowest lane that has it: dispatched to the instruction set as
 * `least` and `cheapest`. */
#ifndef CRAFTC_CHEAPEST_H
#define CRAFTC_CHEAPEST_H

#include <stddef.h>
#include <stdint.h>
#include "common/_simd.h"

#define LEAVES "common/_cheapest_lanes.h"
#include "common/_lanes.h"

#endif
