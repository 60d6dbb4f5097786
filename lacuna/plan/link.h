// How fast processes talk to each other: what the sum of gradients goes over.
#pragma once

#include "lacuna/plan/machine.h"

namespace lacuna {

struct Link {
  Figure rate;  // bytes a second, one way
  Figure hop;   // seconds that the smallest message takes
};

// Between two processes of this host, over TCP as gloo has it: 32 MB one way, then short messages
// to and fro. Takes less than a tenth of a second. Where sockets are refused, the figures are
// assumed, and say so.
Link measure_link();

// For `--link 25GB`: a rate by hand, as networks and NVLink are not measured here.
Link told_link(double bytes_per_second);

// Between GPUs of one host, at least: what the GPU has to the host.
Link gpu_link(const Gpu& gpu);

}  // namespace lacuna
