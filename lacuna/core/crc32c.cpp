#include "lacuna/core/crc32c.h"

#include <array>
#include <cstring>

namespace lacuna {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78u;

constexpr std::array<std::array<uint32_t, 256>, 8> make_crc_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t table = 1; table < 8; ++table)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  return tables;
}
constexpr auto kCrcTables = make_crc_tables();

uint32_t crc_of_byte(uint32_t crc, std::byte byte) {
  return crc >> 8 ^ kCrcTables[0][(crc ^ uint32_t(byte)) & 0xff];
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t crc_by_instruction(std::span<const std::byte> bytes) {
  uint64_t crc = 0xffffffffu;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  for (; at < bytes.size(); ++at) crc = __builtin_ia32_crc32qi(uint32_t(crc), uint8_t(bytes[at]));
  return ~uint32_t(crc);
}
#endif

}  // namespace

uint32_t crc32c_by_tables(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffffu;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; at < bytes.size(); ++at) crc = crc_of_byte(crc, bytes[at]);
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc_by_instruction(bytes);
#endif
  return crc32c_by_tables(bytes);
}

}  // namespace lacuna
