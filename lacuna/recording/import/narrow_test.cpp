#include "lacuna/recording/import/narrow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

template <class T>
NarrowForm form_of(FieldRole role, ElementType type, const std::vector<T>& values,
                   uint64_t columns = 1) {
  NarrowCheck check(role, type, columns);
  check.add(std::as_bytes(std::span(values)), 0);
  return check.form();
}

TEST(Narrow, EveryPixelComesBack) {
  std::vector<float> pixels(256);
  for (int k = 0; k < 256; ++k) pixels[size_t(k)] = float(k - 127) / 255.0f;
  ASSERT_EQ(form_of(FieldRole::stimulus, ElementType::f32, pixels), NarrowForm::pixels_u8);
  std::vector<std::byte> bytes;
  narrow_rows(NarrowForm::pixels_u8, ElementType::f32, 1, std::as_bytes(std::span(pixels)), bytes);
  for (int k = 0; k < 256; ++k) EXPECT_EQ(int(bytes[size_t(k)]), k);
}

// x * (1/255) is not x / 255: most levels differ in the last bit, and are not taken for pixels.
TEST(Narrow, ReciprocalsAreNoPixels) {
  std::vector<float> pixels(256);
  for (int k = 0; k < 256; ++k) pixels[size_t(k)] = float(k - 127) * (1.0f / 255.0f);
  EXPECT_EQ(form_of(FieldRole::stimulus, ElementType::f32, pixels), NarrowForm::as_is);
}

TEST(Narrow, FormsByRole) {
  const std::vector<double> small = {0, 1, 255}, large = {0, 65535}, larger = {65536};
  EXPECT_EQ(form_of(FieldRole::counts, ElementType::f64, small), NarrowForm::u8);
  EXPECT_EQ(form_of(FieldRole::counts, ElementType::f64, large), NarrowForm::u16);
  EXPECT_EQ(form_of(FieldRole::counts, ElementType::f64, larger), NarrowForm::as_is);
  EXPECT_EQ(form_of(FieldRole::stimulus, ElementType::f64, large), NarrowForm::as_is);
  EXPECT_EQ(form_of(FieldRole::behaviour, ElementType::f64, small), NarrowForm::as_is);
  EXPECT_EQ(form_of(FieldRole::trial, ElementType::f64, small), NarrowForm::as_is);
  const std::vector<uint8_t> mask = {0, 1, 1, 0}, other = {0, 1, 2, 0};
  EXPECT_EQ(form_of(FieldRole::validity, ElementType::u8, mask, 2), NarrowForm::bits);
  EXPECT_EQ(form_of(FieldRole::validity, ElementType::u8, other, 2), NarrowForm::as_is);
  EXPECT_EQ(form_of(FieldRole::validity, ElementType::u8, mask), NarrowForm::as_is);  // no smaller
}

TEST(Narrow, ALaterBlockCounts) {
  const std::vector<float> good = {1, 2}, bad = {3, 2.5f};
  NarrowCheck check(FieldRole::stimulus, ElementType::f32, 2);
  EXPECT_TRUE(check.add(std::as_bytes(std::span(good)), 0));
  EXPECT_FALSE(check.add(std::as_bytes(std::span(bad)), 1));
  EXPECT_EQ(check.form(), NarrowForm::as_is);
  EXPECT_EQ(check.why(), "row 1 holds 2.5 in column 1");
}

TEST(Narrow, BitsArePaddedByRow) {
  std::vector<uint8_t> mask(2 * 9, 0);
  mask[0] = mask[8] = mask[9 + 3] = 1;
  std::vector<std::byte> bits;
  narrow_rows(NarrowForm::bits, ElementType::u8, 9, std::as_bytes(std::span(mask)), bits);
  const std::vector<std::byte> expected = {std::byte(1), std::byte(1), std::byte(8), std::byte(0)};
  EXPECT_EQ(bits, expected);
}

}  // namespace
}  // namespace lacuna
