#include "lacuna/report/png.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna::report {
namespace {

void add_u32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += char(value >> shift & 0xff);
}

void add_chunk(std::string& out, const std::string& kind, const std::string& data) {
  add_u32(out, uint32_t(data.size()));
  const std::string body = kind + data;
  out += body;
  add_u32(out,
          uint32_t(::crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size()))));
}

uint8_t level(double share) { return uint8_t(std::lround(255 * std::clamp(share, 0.0, 1.0))); }

}  // namespace

std::string png(std::span<const uint8_t> rgb, uint32_t height, uint32_t width) {
  LACUNA_ASSERT(rgb.size() == size_t(height) * width * 3);
  std::string rows;
  for (uint32_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(rgb.data()) + size_t(y) * width * 3,
                size_t(width) * 3);
  }
  uLongf size = ::compressBound(uLong(rows.size()));
  std::string packed(size, '\0');
  const int done = ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(rows.data()), uLong(rows.size()), 9);
  LACUNA_ASSERT(done == Z_OK);
  packed.resize(size);
  std::string header, out = "\x89PNG\r\n\x1a\n";
  add_u32(header, width);
  add_u32(header, height);
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB
  add_chunk(out, "IHDR", header);
  add_chunk(out, "IDAT", packed);
  add_chunk(out, "IEND", "");
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr const char* kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < left ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= left ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string diverging_picture(std::span<const float> values, uint32_t height, uint32_t width,
                              double most) {
  std::vector<uint8_t> rgb;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      rgb.insert(rgb.end(), {128, 128, 128});
      continue;
    }
    const double share = most > 0 ? std::clamp(double(value) / most, -1.0, 1.0) : 0;
    const double away = std::abs(share);
    const uint8_t fades = level(1 - away), stays = level(1 - 0.25 * away);
    if (share >= 0)
      rgb.insert(rgb.end(), {stays, fades, level(1 - 0.9 * away)});
    else
      rgb.insert(rgb.end(), {fades, level(1 - 0.6 * away), stays});
  }
  return "data:image/png;base64," + base64(png(rgb, height, width));
}

}  // namespace lacuna::report
