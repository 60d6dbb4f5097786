#include "lacuna/core/array.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(Array, HoldsWhatItWasMadeFrom) {
  const Array array = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(array.dtype(), DType::f32);
  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_EQ(array.size(), 6u);
  EXPECT_EQ(array.bytes().size(), 24u);
  EXPECT_EQ(array.as<float>()[4], 5.0f);
  EXPECT_EQ(Array::from(std::vector<uint8_t>{1, 2}).shape(), Shape{2});
}

TEST(Array, EmptyOnesAreArrays) {
  EXPECT_EQ(Array().size(), 0u);
  EXPECT_TRUE(Array().as<uint8_t>().empty());
  const Array no_edges = Array::from(std::vector<uint16_t>{}, {2, 0});
  EXPECT_EQ(no_edges.size(), 0u);
  EXPECT_TRUE(no_edges.as<uint16_t>().empty());
  EXPECT_EQ(Array::from(std::vector<double>{3}, Shape{}).size(), 1u);  // a single number
}

TEST(Array, AnotherTypeThanItsOwnIsRefused) {
  const Array array = Array::from(std::vector<float>{1});
  EXPECT_ERROR(array.as<double>(), "an array of f32 was read as f64");
  EXPECT_ERROR(array.as<uint32_t>(), "an array of f32 was read as u32");
  EXPECT_ERROR(Array::from(std::vector<BFloat16>(1)).as<uint16_t>(), "of bf16 was read as u16");
}

TEST(Array, AShapeOfAnotherSizeIsRefused) {
  EXPECT_THROW(Array::from(std::vector<float>{1, 2, 3}, {2, 2}), std::logic_error);
}

TEST(Array, CopiesKeepTheBytesAlive) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::vector<uint8_t>{7, 8, 9});
  const std::weak_ptr<const std::vector<uint8_t>> watch = owner;
  Array copy;
  {
    const Array array(DType::u8, {3}, reinterpret_cast<const std::byte*>(owner->data()), owner);
    owner.reset();
    copy = array;
    EXPECT_EQ(copy.as<uint8_t>().data(), array.as<uint8_t>().data());  // nothing was copied
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(copy.as<uint8_t>()[2], 9);
  copy = Array();
  EXPECT_TRUE(watch.expired());
}

TEST(Array, NarrowThenWidenIsTheSame) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const std::pair<uint64_t, DType> cases[] = {{256, DType::u8},
                                              {257, DType::u16},
                                              {65'536, DType::u16},
                                              {65'537, DType::u32},
                                              {uint64_t(1) << 32, DType::u32}};
  for (const auto& [nodes, dtype] : cases) {
    std::vector<uint32_t> indices = {0, uint32_t(nodes - 1)};
    for (int i = 0; i < 98; ++i) indices.push_back(uint32_t(random.below(nodes)));
    const Array narrowed = narrow(indices, nodes, {2, 50});
    EXPECT_EQ(narrowed.dtype(), dtype);
    EXPECT_EQ(narrowed.shape(), (Shape{2, 50}));
    EXPECT_EQ(widen(narrowed), indices);
  }
}

TEST(Array, OnlyIndicesAreWidened) {
  EXPECT_ERROR(widen(Array::from(std::vector<float>{1})), "an array of f32 was read as u32");
  EXPECT_ERROR(widen(Array::from(std::vector<uint64_t>{1})), "an array of u64 was read as u32");
}

}  // namespace
}  // namespace lacuna
