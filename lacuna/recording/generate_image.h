// A picture whose amplitudes fall as 1 / frequency, as those of natural scenes do.
#pragma once

#include <cstdint>
#include <vector>

namespace lacuna {

// [size, size] u8, mean 127, standard deviation about 45, cut off at 0 and 255; left and right, top
// and bottom fit together. size is a power of two. A pure function of its arguments.
std::vector<uint8_t> one_over_f_image(uint32_t size, uint64_t seed, uint64_t stream);

}  // namespace lacuna
