#include "lacuna/core/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

uint32_t crc32c_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// The vectors of RFC 3720 and the polynomial's usual check.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c_of("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c_of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c_of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c_of(""), 0u);
}

uint32_t crc_bit_by_bit(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= uint32_t(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32c, TablesAndInstructionAgreeWithOneBitAtATime) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (size_t length = 0; length < 100; ++length) {
    std::vector<std::byte> bytes(length);
    for (std::byte& byte : bytes) byte = std::byte(random());
    EXPECT_EQ(crc32c(bytes), crc_bit_by_bit(bytes)) << length;
    EXPECT_EQ(crc32c_by_tables(bytes), crc_bit_by_bit(bytes)) << length;
  }
}

}  // namespace
}  // namespace lacuna
