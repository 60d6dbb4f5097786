#include "lacuna/core/text/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

// Bytes of the character that begins here; 0 where it is not valid UTF-8.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t first = byte(0);
  const size_t size = first < 0x80                     ? 1
                      : first >= 0xc2 && first < 0xe0  ? 2
                      : first >= 0xe0 && first < 0xf0  ? 3
                      : first >= 0xf0 && first <= 0xf4 ? 4
                                                       : 0;
  if (size == 0 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (size == 1) return 1;
  const bool is_out = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_out ? 0 : size;
}

// U+0000 to U+001F, U+007F to U+009F, and those that reverse the direction of a line.
bool is_control(std::string_view character) {
  if (character.size() == 1) return uint8_t(character[0]) < 0x20 || character[0] == 0x7f;
  if (character.size() == 2) return character[0] == '\xc2' && uint8_t(character[1]) < 0xa0;
  return character >= "\xe2\x80\xaa" && character <= "\xe2\x80\xae";
}

std::string visible(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", uint8_t(c));
  return text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t size = character_size(text.substr(i));
    const std::string_view character = text.substr(i, size == 0 ? 1 : size);
    out += size == 0 || is_control(character) ? visible(character) : std::string(character);
    i += character.size();
  }
  return out;
}

// The largest place up to `end` at which a character may begin.
size_t place_before(std::string_view text, size_t end) {
  while (end > 0 && end < text.size() && (uint8_t(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  if (text.size() <= most)
    if (std::string whole = escaped(text); whole.size() <= most) return whole;
  constexpr size_t kMiddle = 60;  // bytes for the words between the ends
  const size_t head_size = (most - kMiddle) * 2 / 3, tail_size = (most - kMiddle) / 3;
  const auto begin = [&](std::string_view whole) {
    return whole.substr(0, place_before(whole, std::min(head_size, whole.size())));
  };
  const auto end = [&](std::string_view whole) {
    return whole.substr(place_before(whole, whole.size() - std::min(tail_size, whole.size())));
  };
  return fmt::format("{} ... ({} bytes in all) ... {}", begin(escaped(begin(text))),
                     with_commas(text.size()), end(escaped(end(text))));
}

}  // namespace lacuna
