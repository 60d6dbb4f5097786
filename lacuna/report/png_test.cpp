#include "lacuna/report/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <vector>

namespace lacuna::report {
namespace {

uint32_t u32_at(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | uint8_t(bytes[at + i]);
  return value;
}

// By the format's own description: chunks with their checksums, rows behind a filter byte.
TEST(Png, HoldsThePixels) {
  const std::vector<uint8_t> rgb = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
  const std::string bytes = png(rgb, 2, 3);
  ASSERT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string packed;
  for (size_t at = 8; at < bytes.size();) {
    const uint32_t size = u32_at(bytes, at);
    const std::string body = bytes.substr(at + 4, size + 4);
    EXPECT_EQ(u32_at(bytes, at + 8 + size),
              crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size())));
    if (body.starts_with("IHDR")) {
      EXPECT_EQ(u32_at(body, 4), 3u);
      EXPECT_EQ(u32_at(body, 8), 2u);
    }
    if (body.starts_with("IDAT")) packed = body.substr(4);
    at += 12 + size;
  }
  std::vector<uint8_t> rows(2 * (1 + 9));
  uLongf size = rows.size();
  ASSERT_EQ(uncompress(rows.data(), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       uLong(packed.size())),
            Z_OK);
  for (size_t i = 0; i < rgb.size(); ++i) EXPECT_EQ(rows[i / 9 * 10 + 1 + i % 9], rgb[i]);
}

TEST(Png, Base64IsAsItIsWrittenElsewhere) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

TEST(Png, ZeroIsWhiteAndSignsDiffer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto picture = [](std::vector<float> values) {
    return diverging_picture(values, 1, uint32_t(values.size()), 1);
  };
  EXPECT_TRUE(picture({0, 1}).starts_with("data:image/png;base64,"));
  EXPECT_NE(picture({0, 1}), picture({0, -1}));
  EXPECT_NE(picture({0, nan}), picture({0, 0}));
  EXPECT_EQ(picture({0, 2}), picture({0, 1}));  // beyond the most is the most
}

}  // namespace
}  // namespace lacuna::report
