// A small picture as a PNG inside the page.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lacuna::report {

// values [height, width]: below zero blue, above zero red, 0 white; the colours reach to `most`,
// the largest size of any. What is not finite is grey. "data:image/png;base64,..."
std::string diverging_picture(std::span<const float> values, uint32_t height, uint32_t width,
                              double most);

// rgb: [height, width, 3]
std::string png(std::span<const uint8_t> rgb, uint32_t height, uint32_t width);
std::string base64(std::string_view bytes);

}  // namespace lacuna::report
